package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/web"
)

// plainLetters may stand in the name of a file, and on a command line, as they are.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"

// exportName is the file for the offsets that a group had before a reset.
func exportName(group string) string {
	safe := strings.Map(func(r rune) rune {
		if r == '/' || !strings.ContainsRune(plainLetters, r) {
			return '_'
		}
		return r
	}, group)
	if strings.HasPrefix(safe, ".") || strings.HasPrefix(safe, "-") {
		safe = "_" + safe[1:]
	}
	return safe[:min(len(safe), 100)] + "-offsets-" + time.Now().UTC().Format("20060102T150405.000Z") + ".csv"
}

// exportOffsets writes the offsets of before to a new file, as Kafka's tools export them: topic,partition,offset.
func exportOffsets(name string, list []web.NewOffset) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(name) // it is not whole
		}
	}()
	w := csv.NewWriter(f)
	for _, o := range list {
		if err := w.Write([]string{o.Topic, strconv.Itoa(int(o.Partition)), strconv.FormatInt(o.Before, 10)}); err != nil {
			return err
		}
	}
	w.Flush()
	return errors.Join(w.Error(), f.Sync())
}

// readOffsetsFile reads a file of lines topic,partition,offset, or of group,topic,partition,offset, of which those of other groups
// do not count.
func readOffsetsFile(name, group string) (map[partitionKey]int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--from-file: %w", err)
	}
	defer func() { _ = f.Close() }()
	r := csv.NewReader(bufio.NewReader(f))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	saved := map[partitionKey]int64{}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Sprintf("%s is not allowed (allowed: lines of topic,partition,offset): %v", name, err)}
		}
		line, _ := r.FieldPos(0)
		if len(fields) == 4 {
			if fields[0] != group {
				continue
			}
			fields = fields[1:]
		}
		key, offset, err := readOffsetsLine(fields)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Sprintf("line %d of %s is not allowed (allowed: topic,partition,offset): %v", line, name, err)}
		}
		if _, twice := saved[key]; twice {
			return nil, &exitError{exitUsage, fmt.Sprintf("line %d of %s: %s stands twice", line, name, key)}
		}
		saved[key] = offset
	}
	if len(saved) == 0 {
		return nil, &exitError{exitUsage, fmt.Sprintf("%s has no offsets of group %q", name, group)}
	}
	return saved, nil
}

func readOffsetsLine(fields []string) (key partitionKey, offset int64, err error) {
	if len(fields) != 3 {
		return key, 0, fmt.Errorf("it has %s", plural(len(fields), "field"))
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	partition, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil || partition < 0 {
		return key, 0, fmt.Errorf("partition %q is no number from 0 on", fields[1])
	}
	offset, err = strconv.ParseInt(fields[2], 10, 64)
	if err != nil || offset < web.NoOffset {
		return key, 0, fmt.Errorf("offset %q is no number from 0 on, and not -1", fields[2])
	}
	if fields[0] == "" {
		return key, 0, errors.New("the topic is empty")
	}
	return partitionKey{fields[0], int32(partition)}, offset, nil
}
