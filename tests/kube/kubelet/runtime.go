// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// runtime is what a container runtime is to a kubelet.
type runtime struct {
	root string
}

func drain(resize <-chan remotecommand.TerminalSize) {
	for range resize {
	}
}

// ExecInContainer runs the command. There are no terminals here: with tty both outputs are one pipe.
func (r *runtime) ExecInContainer(ctx context.Context, _ string, _ types.UID, _ string, argv []string, in io.Reader,
	out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	go drain(resize)
	if len(argv) == 0 {
		return errors.New("no command")
	}
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Dir = r.root
	command.WaitDelay = time.Second
	if out != nil {
		command.Stdout = out
	}
	if err != nil {
		command.Stderr = err
	} else if tty {
		command.Stderr = command.Stdout
	}
	if in != nil {
		// Not command.Stdin: the end of the command must not wait for the end of the client's input.
		pipe, problem := command.StdinPipe()
		if problem != nil {
			return problem
		}
		go func() {
			io.Copy(pipe, in)
			pipe.Close()
		}()
	}
	problem := command.Run()
	var exit *exec.ExitError
	if errors.As(problem, &exit) {
		return utilexec.CodeExitError{Err: problem, Code: exit.ExitCode()}
	}
	return problem
}

// AttachContainer greets, then echoes until the input ends.
func (r *runtime) AttachContainer(_ context.Context, _ string, _ types.UID, _ string, in io.Reader, out, _ io.WriteCloser,
	_ bool, resize <-chan remotecommand.TerminalSize) error {
	go drain(resize)
	if out == nil {
		return nil
	}
	if _, err := fmt.Fprintln(out, "attached"); err != nil || in == nil {
		return err
	}
	_, err := io.Copy(out, in)
	return err
}

// PortForward connects to that port of this machine.
func (r *runtime) PortForward(_ context.Context, _ string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		io.Copy(conn, stream)
		conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}
