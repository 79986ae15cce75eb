// Command upstream runs franz-go's in-process Kafka as a process of its own: the Kafka behind coordd in end-to-end tests
// that do without a JVM for it.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 9092, "port of the first broker; the others follow")
	brokers := flag.Int("brokers", 1, "number of brokers")
	dir := flag.String("data-dir", "", "folder for topics and offsets (empty: in memory)")
	flag.Parse()
	if err := run(*port, *brokers, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(port, brokers int, dir string) error {
	if brokers < 1 {
		return fmt.Errorf("--brokers %d: at least 1", brokers)
	}
	ports := make([]int, brokers)
	for i := range ports {
		ports[i] = port + i
	}
	opts := []kfake.Opt{kfake.NumBrokers(brokers), kfake.Ports(ports...)}
	if dir != "" {
		opts = append(opts, kfake.DataDir(dir))
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	fmt.Println("ready", cluster.ListenAddrs())
	<-stop
	return nil
}
