package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTime       = 200 * time.Millisecond
	commitInterval = time.Second
	commitTime     = 20 * time.Second
	clockMonotonic = 1 // Linux
)

// run runs members that tell what they do. A number on standard input lets so many of them leave. A line is
// "WORD NANOSECONDS MEMBER PARTITION OFFSET"; the words are in hundred_members.py.
func run(servers, topic, group, protocol string, count int, name string) {
	members := make([]*member, count)
	var all sync.WaitGroup
	for n := range members {
		one := &member{name: fmt.Sprintf("%s-%d", name, n), topic: topic, read: map[int32]*kgo.Record{}}
		members[n] = one
		all.Go(func() { one.run(servers, group, protocol) })
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		leaving := number(commands.Text())
		for _, one := range members[:leaving] {
			one.stopped.Store(true)
		}
		members = members[leaving:]
	}
	for _, one := range members {
		one.stopped.Store(true)
	}
	all.Wait()
}

// member is one member. Polls and callbacks of a client wait for each other (BlockRebalanceOnPoll), so nothing here is
// used by two at a time.
type member struct {
	name, topic string
	read        map[int32]*kgo.Record // the last of each partition, if it is not committed yet
	stopped     atomic.Bool
}

func (m *member) run(servers, group, protocol string) {
	options := []kgo.Opt{
		kgo.ClientID(m.name),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(m.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
	}
	switch protocol {
	case "classic":
	case "consumer":
		// The kind of balancer becomes the name of the coordinator's assignor: this one is "uniform".
		options = append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	default:
		log.Fatal(usage)
	}
	client := open(servers, options...)
	committed := time.Now()
	for !m.stopped.Load() {
		m.poll(client)
		if time.Since(committed) > commitInterval {
			committed = time.Now()
			m.commit(client, slices.Collect(maps.Values(m.read)))
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	m.tell("left", -1, -1)
}

func (m *member) poll(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), pollTime)
	defer cancel()
	fetches := client.PollFetches(ctx)
	fetches.EachError(func(_ string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			log.Print(m.name, " partition ", partition, ": ", err)
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		m.tell("read", record.Partition, record.Offset)
		m.read[record.Partition] = record
	})
}

func (m *member) commit(client *kgo.Client, last []*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTime)
	defer cancel()
	if err := client.CommitRecords(ctx, last...); err != nil {
		log.Print(m.name, " commit: ", err)
		m.tell("failed", -1, -1)
		return
	}
	for _, record := range last {
		delete(m.read, record.Partition)
	}
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	for _, partition := range partitions[m.topic] {
		m.tell("own", partition, -1)
	}
}

func (m *member) revoked(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
	var last []*kgo.Record
	for _, partition := range partitions[m.topic] {
		if record, found := m.read[partition]; found {
			last = append(last, record)
		}
	}
	m.commit(client, last)
	m.drop("let", partitions)
}

func (m *member) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	m.drop("lost", partitions)
}

func (m *member) drop(word string, partitions map[string][]int32) {
	for _, partition := range partitions[m.topic] {
		delete(m.read, partition)
		m.tell(word, partition, -1)
	}
}

func (m *member) tell(word string, partition int32, offset int64) {
	line := fmt.Appendf(nil, "%s %d %s %d %d\n", word, monotonic(), m.name, partition, offset)
	if _, err := os.Stdout.Write(line); err != nil { // one write: lines of members do not mix
		log.Fatal(err)
	}
}

// monotonic reads the machine's monotonic clock, which the other programs' times are of too. The times of package time
// cannot be compared with those of another process.
func monotonic() int64 {
	var now syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0); err != 0 {
		log.Fatal(err)
	}
	return now.Nano()
}
