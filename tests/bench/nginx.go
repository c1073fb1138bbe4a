package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A site is what stands in nginx's http{} besides what all have: the upstream at this socket, and what
// stands first in server{}.
type site func(s *stage, socket string) (http, server string, err error)

// bareAuthRequest is the floor: the least that auth_request needs, over connections that stay open.
func bareAuthRequest(_ *stage, socket string) (string, string, error) {
	return `upstream bare { server ` + socket + `; keepalive 64; keepalive_requests 1000000; }`,
		`auth_request /_auth;
		location = /_auth {
			internal;
			proxy_pass http://bare/nginx;
			proxy_pass_request_body off;
			proxy_set_header Content-Length "";
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}`, nil
}

// shippedIncludes is the site as nginx/README.md has it, over a unix socket.
func shippedIncludes(s *stage, socket string) (string, string, error) {
	const file, usual = "authz_upstream_unix.conf", "unix:/run/authz/authz.sock"
	upstream, err := os.ReadFile(filepath.Join(s.root, "nginx", file))
	if err != nil {
		return "", "", err
	}
	if !strings.Contains(string(upstream), "server "+usual+";") {
		return "", "", fmt.Errorf("nginx/%s: no server %s, which is to be replaced", file, usual)
	}
	return "include authz/authz.conf;\n" + strings.Replace(string(upstream), "server "+usual, "server "+socket, 1),
		"include authz/authz_server.conf;", nil
}

// throughNginx is another contestant behind nginx and a unix socket.
func throughNginx(behind starter, conf site) starter {
	return func(s *stage, r row) (*contestant, error) {
		r.unix = true
		c, err := behind(s, r)
		if err != nil {
			return nil, err
		}
		p, addr, err := s.startNginx(conf, c.addr)
		if err != nil {
			return nil, err
		}
		c.addr, c.question = addr, question{visit, http.StatusOK, r.keys}
		c.processes = append(c.processes, p)
		return c, nil
	}
}

// startNginx starts an nginx whose site is a picture of one pixel, from memory. Each worker has its
// own listening socket, so that neither gets all the connections.
func (s *stage) startNginx(conf site, socket string) (*process, string, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, "", err
	}
	if err := os.Symlink(filepath.Join(s.root, "nginx"), filepath.Join(dir, "authz")); err != nil {
		return nil, "", err
	}
	inHTTP, inServer, err := conf(s, socket)
	if err != nil {
		return nil, "", err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;"
	}
	text := user + `
daemon off;
worker_processes auto;
pid nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path temp; proxy_temp_path temp;
	fastcgi_temp_path temp; scgi_temp_path temp; uwsgi_temp_path temp;
	keepalive_requests 100000000;
	set_real_ip_from 127.0.0.1;
	real_ip_header X-Forwarded-For;
	` + inHTTP + `
	server {
		` + inServer + `
		listen ` + addr + ` reuseport;
		location / { empty_gif; }
	}
}
`
	name := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return nil, "", err
	}
	p, err := s.start("nginx", addr, exec.Command("nginx", "-p", dir, "-c", name, "-e", "stderr"))
	return p, addr, err
}
