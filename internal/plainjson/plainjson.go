// Package plainjson writes JSON as programs read it, with < > and & as they are.
package plainjson

import (
	"encoding/json"
	"io"
)

// NewEncoder writes to w.
func NewEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
