package admin

import (
	"strings"
	"testing"

	"authz/internal/service"
)

func TestAChartIsAdmittedAndRefusedAboveIt(t *testing.T) {
	var h service.LimitHistory
	if c := newChart(&h); c.Most != "0" {
		t.Errorf("%+v, want nothing", c)
	}
	for i := service.HistorySamples - 3; i < service.HistorySamples; i++ {
		h.Admitted[i], h.Refused[i] = 30, 10
	}
	c := newChart(&h)
	if c.Most != "8.00" || !strings.HasSuffix(c.Refused, "V36.0 h2 V0.0 h2 V0.0 h2 V0.0 h2 V36 Z") || !strings.HasSuffix(c.Admitted, "V36.0 h2 V9.0 h2 V9.0 h2 V9.0 h2 V36 Z") {
		t.Errorf("%+v", c)
	}
}
