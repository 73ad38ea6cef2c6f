// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"
)

const (
	leaseGroup     = "coordination.k8s.io"
	leaseNamespace = "kube-system"
	identityLabel  = "apiserver.kubernetes.io/identity"
	addressNote    = "kubernetes.io/peer-advertise-address"
	leaseSeconds   = 3600
)

// serverID is the name that kube-apiserver makes of its host name: hash over both strings, each
// with a two-byte length before it.
func serverID(hostname string) string {
	var text []byte
	for _, part := range []string{hostname, "kube-apiserver"} {
		text = append(text, byte(len(part)>>8), byte(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	code := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
	return "apiserver-" + strings.ToLower(code)
}

func microTime(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

// leaseKeeper publishes one server's identity.
type leaseKeeper struct {
	store  *store
	cfg    serverConfig
	minor  int
	id     string
	holder string
	stop   chan struct{}
	done   chan struct{}
	pause  chan bool
}

// publishes: identity Leases became the default with 1.26.
func (c *serverConfig) publishes(minor int) bool { return minor >= 26 && !c.NoLease }

func startLease(st *store, cfg serverConfig, minor int, address string) *leaseKeeper {
	k := &leaseKeeper{store: st, cfg: cfg, minor: minor, id: serverID(cfg.Hostname),
		stop: make(chan struct{}), done: make(chan struct{}), pause: make(chan bool)}
	k.holder = k.id + "_" + newUID()
	if minor >= 36 && cfg.PeerAddress == "" {
		k.cfg.PeerAddress = address // the mixed version proxy's gate is on by default from 1.36
	}
	if minor >= 35 {
		st.remove(leaseGroup, "leases", leaseNamespace, k.id, preconditions{})
	}
	k.renew()
	go k.loop()
	return k
}

func (k *leaseKeeper) renew() {
	now := microTime(time.Now().Add(time.Duration(k.cfg.LeaseSkew)))
	_, st := k.store.update(leaseGroup, "leases", leaseNamespace, k.id, preconditions{},
		func(o object) (object, *apiStatus) {
			spec, _ := o["spec"].(object)
			// Who holds it is decided at creation; a restart before 1.35 keeps the old holder.
			o["spec"] = mergePatch(spec, object{"renewTime": now, "leaseDurationSeconds": leaseSeconds})
			return o, nil
		})
	if st == nil {
		return
	}
	m := object{"name": k.id, "labels": object{identityLabel: "kube-apiserver", "kubernetes.io/hostname": k.cfg.Hostname}}
	if k.cfg.PeerAddress != "" {
		m["annotations"] = object{addressNote: k.cfg.PeerAddress}
	}
	k.store.create(leaseGroup, "leases", leaseNamespace, k.id, object{"metadata": m,
		"spec": object{"holderIdentity": k.holder, "leaseDurationSeconds": leaseSeconds, "renewTime": now}})
}

func (k *leaseKeeper) loop() {
	defer close(k.done)
	ticker := time.NewTicker(time.Duration(k.cfg.LeaseInterval))
	defer ticker.Stop()
	paused := false
	for {
		select {
		case <-k.stop:
			return
		case paused = <-k.pause:
		case <-ticker.C:
			if !paused {
				k.renew()
			}
		}
	}
}

// end stops renewing; a graceful end deletes the Lease where the version does so.
func (k *leaseKeeper) end(graceful bool) {
	close(k.stop)
	<-k.done
	if graceful && k.minor >= 35 {
		k.store.remove(leaseGroup, "leases", leaseNamespace, k.id, preconditions{})
	}
}
