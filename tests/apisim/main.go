// SPDX-License-Identifier: Apache-2.0

// apisim speaks as one or several kube-apiservers that share one "etcd", as far as
// mvproxy's tests need it, with faults on command. See README.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout))
}

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("apisim", flag.ContinueOnError)
	configFile := flags.String("config", "", "JSON file with the servers; - reads standard input")
	verbose := flags.Bool("v", false, "log every request on standard error")
	ids := flags.String("server-id", "", "print the server ID of this host name and end")
	single := singleServerFlags(flags)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *ids != "" {
		fmt.Fprintln(out, serverID(*ids))
		return 0
	}
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	log.SetPrefix("apisim ")

	cfg := single()
	if *configFile != "" {
		var err error
		if cfg, err = loadConfig(*configFile); err != nil {
			fmt.Fprintf(os.Stderr, "apisim: %v\n", err)
			return 2
		}
	}
	sim := newSim(cfg, *verbose)
	if err := sim.start(); err != nil {
		fmt.Fprintf(os.Stderr, "apisim: %v\n", err)
		sim.close()
		return 1
	}
	// One line tells the starter which ports were chosen, and that everything listens.
	if err := json.NewEncoder(out).Encode(sim.summary()); err != nil {
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	sim.close()
	return 0
}
