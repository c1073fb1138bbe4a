package rig

// Both are the two protocols that clients speak to nginx.
func (n *NginxServer) Both() map[string]Sender {
	return map[string]Sender{"HTTP/1.1": n.Send, "HTTP/2": n.SendH2}
}
