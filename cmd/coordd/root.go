package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/server"
)

// run executes one command line and returns the exit code.
func run(args []string, stdout, stderr *os.File) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err != nil {
		printError(stderr, err)
	}
	return exitCode(err)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "coordd",
		Short: "A group coordinator for Kafka Streams, replicated by Raft",
		Long: `coordd coordinates the groups of Kafka Streams applications (KIP-1071, group.protocol=streams) and passes everything
else through to the Kafka cluster behind it. Applications stay as they are: they set bootstrap.servers to coordd.`,
		Example: `  coordd dev                                  try it: three nodes and an embedded Kafka in one process
  coordd serve --config coordd.yaml           one node of a cluster
  coordd leaders                              who leads each shard
  coordd groups describe my-app               members and tasks of a group`,
		Version:       server.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &exitError{exitUsage, err.Error() + "; see '" + c.CommandPath() + " --help'"}
	})
	root.AddCommand(devCommand(), serveCommand(), leadersCommand(), statusCommand(), groupsCommand(), importCommand(), exportCommand())
	usageOnBadArguments(root)
	return root
}

// usageOnBadArguments gives wrong arguments and unknown commands the exit code for wrong usage.
func usageOnBadArguments(c *cobra.Command) {
	check := c.Args
	if check == nil {
		check = noArguments
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return &exitError{exitUsage, err.Error() + "; see '" + c.CommandPath() + " --help'"}
		}
		return nil
	}
	for _, sub := range c.Commands() {
		usageOnBadArguments(sub)
	}
	if c.HasSubCommands() && c.Run == nil && c.RunE == nil {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
}

// noArguments takes what follows a command that has subcommands for an unknown one, and for superfluous elsewhere.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.HasSubCommands() {
		text := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
		c.SuggestionsMinimumDistance = 2
		if similar := c.SuggestionsFor(args[0]); len(similar) > 0 {
			text += "; did you mean " + strings.Join(similar, " or ") + "?"
		}
		return errors.New(text)
	}
	return fmt.Errorf("%q is too much: '%s' takes flags only", args[0], c.CommandPath())
}

// usageError gives a refused setting the exit code for wrong usage.
func usageError(err error) error {
	var refused *config.Error
	if errors.As(err, &refused) {
		return &exitError{exitUsage, err.Error()}
	}
	return err
}
