// Package topicctl owns the image of the upstream's topics and brokers, the watch that keeps it fresh, the creation of
// internal topics, and the comparison of those that exist with what apps ask for. It works over [Source], so it must not
// know how the upstream is reached, nor shards, the wire, or what a group is: it takes group ids as opaque names.
package topicctl
