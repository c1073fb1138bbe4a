package openresty

import (
	"fmt"
	"testing"

	"authz/internal/store"
	"authz/tests/rig"
)

// The pack's stores and Redis, asked by the service, give the same answers to the microsecond.
func TestThePacksStoresAgreeWithTheServicesStepByStep(t *testing.T) {
	r := rig.StartRedis(t)
	p := rig.StartPackStores(t, r)
	for seed := range uint64(10) {
		memory := rig.StoreTaker(store.NewMemory(1000))
		rig.Agree(t, 1000+seed, 150, memory, rig.StoreTaker(rig.PackStore{PackStores: p, Path: "/shdict"}))
		p.Post("/flush", "")
		rig.Agree(t, 2000+seed, 150, rig.StoreTaker(store.NewMemory(1000)), rig.StoreTaker(rig.PackStore{PackStores: p, Path: "/redis"}))
		r.Flush(t)
	}
}

// Two workers and 64 clients at once admit exactly the limit, on either store.
func TestThePackAdmitsExactlyTheLimitInTwoWorkers(t *testing.T) {
	p := rig.StartPackStores(t, rig.StartRedis(t))
	for _, path := range []string{"/shdict", "/redis"} {
		s := rig.PackStore{PackStores: p, Path: path}
		for _, algorithm := range rig.Algorithms {
			l := rig.NewLimit(t, algorithm, algorithm, 200, 366*86400e6, 200)
			want := 200
			if algorithm == "leaky_bucket" {
				want++
			}
			n := rig.TakeAtOnce(t, [2]store.Store{s, s}, l, 64, 10)
			rig.Same(t, fmt.Sprint(path, algorithm, n), fmt.Sprint(path, algorithm, want))
		}
	}
}
