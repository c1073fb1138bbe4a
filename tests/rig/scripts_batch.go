package rig

import (
	"fmt"
	"slices"

	"authz/limits"
)

// A Request is what take is asked for once; many share a call.
type Request struct {
	Checks []limits.Check
	Peek   bool
}

// TakeAll asks take for all requests in one call, with the numbers of every check written out.
func (s *Scripts) TakeAll(nowUS int64, requests ...Request) string {
	var keys []string
	args := []any{nowUS}
	for _, r := range requests {
		k, a := takeArgs(r.Checks, r.Peek)
		keys, args = append(keys, k...), append(args, a...)
	}
	return s.Run("take", keys, args...)
}

// TakeSharing asks the same as takeAll, and writes the numbers that checks have alike once.
func (s *Scripts) TakeSharing(nowUS int64, requests ...Request) string {
	var keys []string
	args, rows := []any{nowUS}, map[string]int{}
	for _, r := range requests {
		k, a := takeArgs(r.Checks, r.Peek)
		keys, args = append(keys, k...), append(args, a[0])
		for row := range slices.Chunk(a[1:], 5) {
			if i, known := rows[fmt.Sprint(row)]; known {
				args = append(args, 5+i)
			} else {
				rows[fmt.Sprint(row)] = len(rows) + 1
				args = append(args, row...)
			}
		}
	}
	return s.Run("take", keys, args...)
}
