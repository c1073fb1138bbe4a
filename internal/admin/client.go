package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Flags is where the admin listener of a running service is.
type Flags struct {
	Admin          string `help:"Admin listener of a running authz serve: host:port, http:// URL or unix:/path." default:"127.0.0.1:7430"`
	AdminTokenFile string `help:"File with its token, for what changes something." placeholder:"FILE" type:"path"`
}

// Ask sends a request to the admin listener and reads the answer into answer.
func (f *Flags) Ask(method, path string, values url.Values, answer any) error {
	response, err := f.Send(method, path, values)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return readAnswer(f.Admin, response, answer)
}

// Send is ask, whose answer is the caller's to read and to close.
func (f *Flags) Send(method, path string, values url.Values) (*http.Response, error) {
	client, base := &http.Client{Timeout: 10 * time.Second}, f.Admin
	switch socket, isUnix := strings.CutPrefix(f.Admin, "unix:"); {
	case isUnix:
		base = "http://localhost"
		client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
	case !strings.Contains(f.Admin, "://"):
		base = "http://" + f.Admin
	}
	request, err := http.NewRequest(method, strings.TrimSuffix(base, "/")+path, strings.NewReader(values.Encode()))
	if err != nil {
		return nil, fmt.Errorf("--admin=%s: want host:port, an http:// URL or unix:/path", f.Admin)
	}
	if method == http.MethodGet {
		request.URL.RawQuery, request.Body, request.ContentLength = values.Encode(), nil, 0
	} else {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if f.AdminTokenFile != "" {
		token, err := ReadToken(f.AdminTokenFile)
		if err != nil {
			return nil, fmt.Errorf("--admin-token-file=%w", err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("--admin=%s: %w; is authz serve running, with this --admin?", f.Admin, err)
	}
	return response, nil
}

func readAnswer(from string, response *http.Response, answer any) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("--admin=%s: %w", from, err)
	}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("--admin=%s: this is no answer of authz's admin listener: %w", from, err)
		}
		return nil
	}
	var said adminError
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		return fmt.Errorf("--admin=%s: %s: this is no answer of authz's admin listener", from, response.Status)
	}
	if response.StatusCode == http.StatusBadRequest {
		return UsageError{errors.New(said.Error)}
	}
	return errors.New(said.Error)
}
