// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// duration reads "10s" from JSON.
type duration time.Duration

func (d *duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	*d = duration(v)
	return err
}

func (d duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// simConfig is the whole of --config.
type simConfig struct {
	Control string         `json:"control"`           // address of the control interface
	Records int            `json:"records"`           // how many requests are remembered; -1: none
	Rules   []rule         `json:"rules,omitempty"`   // added to the built-in ones
	Objects []object       `json:"objects,omitempty"` // in the store from the start
	Servers []serverConfig `json:"servers"`
}

// serverConfig is one kube-apiserver. Zero values mean what kube-apiserver's defaults mean.
type serverConfig struct {
	Name     string `json:"name"`
	Listen   string `json:"listen"`
	Hostname string `json:"hostname"`
	Profile  string `json:"profile"` // v1.24 ... v1.37

	CertFile string `json:"tls-cert-file"`
	KeyFile  string `json:"tls-private-key-file"`
	ClientCA string `json:"client-ca-file"`
	TokenCSV string `json:"token-auth-file"`

	ProxyCA         string   `json:"requestheader-client-ca-file"`
	ProxyNames      []string `json:"requestheader-allowed-names"`
	UsernameHeaders []string `json:"requestheader-username-headers"`
	UIDHeaders      []string `json:"requestheader-uid-headers"`
	GroupHeaders    []string `json:"requestheader-group-headers"`
	ExtraPrefixes   []string `json:"requestheader-extra-headers-prefix"`

	NoAnonymous   bool     `json:"no-anonymous"`
	StartsUnready bool     `json:"starts-unready"` // /readyz is 500 until the command "ready"
	LateCRDs      bool     `json:"late-crds"`      // and until then there are no custom resources
	HTTP1Only     bool     `json:"http1-only"`
	RuntimeConfig []string `json:"runtime-config"`
	Extra         []apiRow `json:"extra"` // resources no kube-apiserver has

	NoLease       bool     `json:"no-lease"`
	LeaseInterval duration `json:"lease-renew-interval"`
	LeaseSkew     duration `json:"lease-clock-skew"` // added to renewTime: a server with a wrong clock
	PeerAddress   string   `json:"peer-advertise-address"`
	Bookmarks     duration `json:"bookmark-interval"`
	V2Beta1       bool     `json:"v2beta1-discovery"` // 1.33 and 1.34 with the removal gate turned back

	Kubelet     string `json:"kubelet"` // its address: pods' streams and logs are asked of it
	KubeletCert string `json:"kubelet-client-certificate"`
	KubeletKey  string `json:"kubelet-client-key"`
	KubeletCA   string `json:"kubelet-certificate-authority"`
}

func (c *serverConfig) defaults() error {
	if c.Profile == "" {
		c.Profile = "v1.34"
	}
	if _, err := minorOf(c.Profile); err != nil {
		return err
	}
	if c.Name == "" {
		c.Name = c.Hostname
	}
	if c.Name == "" {
		c.Name = "a"
	}
	if c.Hostname == "" {
		c.Hostname = c.Name
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if len(c.UsernameHeaders) == 0 {
		c.UsernameHeaders = []string{"X-Remote-User"}
	}
	if len(c.GroupHeaders) == 0 {
		c.GroupHeaders = []string{"X-Remote-Group"}
	}
	if len(c.ExtraPrefixes) == 0 {
		c.ExtraPrefixes = []string{"X-Remote-Extra-"}
	}
	if c.LeaseInterval <= 0 {
		c.LeaseInterval = duration(10 * time.Second)
	}
	if c.Bookmarks <= 0 {
		c.Bookmarks = duration(time.Minute)
	}
	if c.CertFile == "" || c.KeyFile == "" {
		return fmt.Errorf("server %s: tls-cert-file and tls-private-key-file are needed", c.Name)
	}
	return nil
}

func loadConfig(path string) (*simConfig, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(os.Stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	cfg := &simConfig{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(cfg); err != nil {
		return nil, fmt.Errorf("%s: %v", path, err)
	}
	return cfg, nil
}

// singleServerFlags declares the options that make one server without a file.
func singleServerFlags(flags *flag.FlagSet) func() *simConfig {
	control := flags.String("control", "127.0.0.1:0", "address of the plain-HTTP control interface")
	records := flags.Int("records", 0, "requests remembered (0: 100000, -1: none)")
	var c serverConfig
	flags.StringVar(&c.Name, "name", "", "name of the server in the control interface (default: its host name)")
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:0", "HTTPS address")
	flags.StringVar(&c.Hostname, "hostname", "", "host name that the server ID is made of")
	flags.StringVar(&c.Profile, "profile", "v1.34", "kube-apiserver version to imitate: v1.24 ... v1.37")
	flags.StringVar(&c.CertFile, "tls-cert-file", "", "serving certificate")
	flags.StringVar(&c.KeyFile, "tls-private-key-file", "", "its key")
	flags.StringVar(&c.ClientCA, "client-ca-file", "", "CA of client certificates")
	flags.StringVar(&c.ProxyCA, "requestheader-client-ca-file", "", "CA of front proxies")
	flags.StringVar(&c.TokenCSV, "token-auth-file", "", `lines of token,user,uid,"group,group"`)
	flags.StringVar(&c.PeerAddress, "peer-advertise-address", "", "value of the Lease annotation")
	flags.BoolVar(&c.NoAnonymous, "no-anonymous", false, "as --anonymous-auth=false")
	flags.BoolVar(&c.NoLease, "no-lease", false, "publish no identity Lease")
	flags.BoolVar(&c.HTTP1Only, "http1-only", false, "do not offer h2")
	names := flags.String("requestheader-allowed-names", "", "comma-separated CNs of front proxies")
	runtime := flags.String("runtime-config", "", "comma-separated [group/]version[/resource[/subresource]][:verb]=bool")
	lease := flags.Duration("lease-renew-interval", 10*time.Second, "renewal of the identity Lease")
	return func() *simConfig {
		c.ProxyNames = splitList(*names)
		c.RuntimeConfig = splitList(*runtime)
		c.LeaseInterval = duration(*lease)
		return &simConfig{Control: *control, Records: *records, Servers: []serverConfig{c}}
	}
}

func splitList(text string) []string {
	var out []string
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
