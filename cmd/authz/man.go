package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	mangokong "github.com/alecthomas/mango-kong"
	"github.com/muesli/roff"
)

// manFlag writes the man page, which is made of what --help says.
type manFlag bool

func (manFlag) BeforeApply(app *kong.Kong) error {
	percents(app.Model.Node)
	fmt.Fprint(app.Stdout, mangokong.NewManPage(1, app.Model).Build(roff.NewDocument()))
	app.Exit(0)
	return nil
}

// percents doubles each %, since texts are formats to those who make the page of them.
func percents(n *kong.Node) {
	double := func(texts ...*string) {
		for _, text := range texts {
			*text = strings.ReplaceAll(*text, "%", "%%")
		}
	}
	double(&n.Help, &n.Detail)
	for _, f := range n.Flags {
		double(&f.Help, &f.Default, &f.PlaceHolder)
	}
	for _, child := range n.Children {
		percents(child)
	}
}
