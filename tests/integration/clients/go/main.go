// What the tests want of franz-go, a command each; see usage.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

const usage = `usage:
  produce SERVERS TOPIC COUNT CODEC
      produces so many records: keys k0, k1, ... and values v0, v1, ...
  consume SERVERS TOPIC COUNT
      reads so many records from the beginning, and tells their keys and values
  members SERVERS TOPIC GROUP PROTOCOL COUNT NAME
      runs members of a group; PROTOCOL is classic or consumer (KIP-848)`

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	log.SetFlags(0)
	command, given := "", []string(nil)
	if len(os.Args) > 1 {
		command, given = os.Args[1], os.Args[2:]
	}
	switch {
	case command == "produce" && len(given) == 4:
		produce(given[0], given[1], number(given[2]), given[3])
	case command == "consume" && len(given) == 3:
		consume(given[0], given[1], number(given[2]))
	case command == "members" && len(given) == 6:
		run(given[0], given[1], given[2], given[3], number(given[4]), given[5])
	default:
		log.Fatal(usage)
	}
}

func produce(servers, topic string, count int, codecName string) {
	codec, known := codecs[codecName]
	if !known {
		log.Fatal(usage)
	}
	client := open(servers, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec))
	defer client.Close()
	records := make([]*kgo.Record, count)
	for n := range records {
		records[n] = &kgo.Record{Key: fmt.Append(nil, "k", n), Value: fmt.Append(nil, "v", n)}
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		log.Fatal(err)
	}
}

func consume(servers, topic string, count int) {
	client := open(servers, kgo.ConsumeTopics(topic))
	defer client.Close()
	for count > 0 {
		fetches := client.PollRecords(context.Background(), count)
		fetches.EachError(func(_ string, _ int32, err error) { log.Fatal(err) })
		fetches.EachRecord(func(record *kgo.Record) { fmt.Printf("%s %s\n", record.Key, record.Value) })
		count -= fetches.NumRecords()
	}
}

// open makes a client that has franz-go's defaults, save for these options.
func open(servers string, options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(servers, ",")...))...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func number(text string) int {
	found, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		log.Fatal(err)
	}
	return found
}
