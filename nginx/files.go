// Package nginx is the files that nginx includes, for authz snippet, which writes them as one.
package nginx

import "embed"

// Files are all of them, by name.
//
//go:embed *.conf
var Files embed.FS
