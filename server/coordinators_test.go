package server

import "testing"

// The values are String.hashCode's of a Java 17.
func TestJavaHash(t *testing.T) {
	for text, want := range map[string]int32{
		"": 0, "a": 97, "wordcount": 893673541, "polygenelubricants": -2147483648, "größe": 98762257, "😀": 1772899,
	} {
		if got := javaHash(text); got != want {
			t.Errorf("%q: %d, Java says %d", text, got, want)
		}
	}
	if s := shardOf("polygenelubricants", 8); s != 0 {
		t.Errorf("the least int belongs to shard %d", s)
	}
}
