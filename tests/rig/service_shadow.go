package rig

const ShadowLimits = `
	[limit.ip]
	match     = { path = "/both" }
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "3/366d"
	on_error  = %q
	[limit.trial]
	key       = ["header:Who"]
	missing   = "share"
	algorithm = "fixed_window"
	rate      = "100/366d"
	mode      = "shadow"
	on_error  = %[1]q`
