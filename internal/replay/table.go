package replay

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A table aligns rows of text. A column whose title begins with ">" is aligned to the right.
type table struct {
	w     io.Writer
	right []bool
	rows  [][]string
}

func newTable(w io.Writer, titles ...string) *table {
	t := &table{w: w}
	var row []string
	for _, title := range titles {
		text, right := strings.CutPrefix(title, ">")
		t.right = append(t.right, right)
		row = append(row, text)
	}
	t.row(row...)
	return t
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// end writes the rows. A title alone is not worth a line.
func (t *table) end() {
	if len(t.rows) == 1 {
		return
	}
	widths := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				cell = blanks + cell
			} else {
				cell += blanks
			}
			line += cell + "  "
		}
		fmt.Fprintln(t.w, strings.TrimRight(line, " "))
	}
}
