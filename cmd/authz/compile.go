package main

type compileCmd struct {
	Paths       []string `arg:"" name:"path" help:"Limits files, or folders of *.toml, that are one set."`
	RedisPrefix string   `help:"What Redis keys begin with." default:"authz"`
}

func (f *compileCmd) Run(c *console) error {
	set, err := c.loadLimits(f.RedisPrefix, f.Paths)
	if err != nil {
		return err
	}
	_, err = c.out.Write(set.JSON())
	return err
}
