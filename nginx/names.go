package nginx

import (
	"strings"
)

// IsVariable says whether nginx has a variable of its own for a header of this name.
func IsVariable(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
