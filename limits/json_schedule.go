package limits

type scheduleJSON struct {
	Name    string     `json:"name"`
	Rate    rateJSON   `json:"rate"`
	FromUS  *int64     `json:"from_us,omitempty"`
	UntilUS *int64     `json:"until_us,omitempty"`
	Week    [][2]int64 `json:"week,omitempty"`
	Zone    string     `json:"zone,omitempty"` // goes with week
}

type zoneJSON struct {
	OffsetUS int64      `json:"offset_us"`
	Changes  [][2]int64 `json:"changes"`
}

func newScheduleJSON(s *schedule) scheduleJSON {
	j := scheduleJSON{Name: s.name, Rate: newRateJSON(s.rate)}
	if s.fromUS > -never {
		j.FromUS = &s.fromUS
	}
	if s.untilUS < never {
		j.UntilUS = &s.untilUS
	}
	for _, w := range s.week {
		j.Week, j.Zone = append(j.Week, [2]int64{w.fromUS, w.untilUS}), s.zone.name
	}
	return j
}

// zonesJSON is the zones that the schedules of limits need, by name.
func zonesJSON(limits []limitSpec) map[string]zoneJSON {
	zones := map[string]zoneJSON{}
	for i := range limits {
		for _, s := range limits[i].schedules {
			if s.week == nil {
				continue
			}
			j := zoneJSON{OffsetUS: s.zone.offsetUS[0], Changes: [][2]int64{}}
			for n, us := range s.zone.atUS {
				j.Changes = append(j.Changes, [2]int64{us, s.zone.offsetUS[n+1]})
			}
			zones[s.zone.name] = j
		}
	}
	return zones
}
