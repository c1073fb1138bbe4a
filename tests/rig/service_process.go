package rig

const Slow = `
	[limit.slow]
	match     = { path = "/slow" }
	key       = []
	algorithm = "leaky_bucket"
	rate      = "2/s"
	burst     = 1
	[limit.a]
	match     = { path = "/a" }
	key       = []
	algorithm = "sliding_window"
	rate      = "5/d"
	[defaults]
	hold_max = "500ms"`
