package tests

import (
	"testing"

	"authz/store"
)

var bodies = []body{
	{"memory", func(*testing.T) taker { return storeTaker(store.NewMemory(1000)) }},
}
