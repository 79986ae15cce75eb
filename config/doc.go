// Package config owns the settings of a node: their names (Kafka's own where Kafka has the setting), kinds, defaults
// and limits, and how they are read from flags, environment and file. A setting that is unknown or out of range is
// refused with its name, its value and what is allowed.
//
// It must not know what the settings are used for, nor start anything.
package config
