package server

import (
	"strconv"

	"github.com/coordd/coordd/coordinator"
)

// codeLabel is an error code as the value of a metric's label.
func codeLabel(c coordinator.Code) string { return strconv.Itoa(int(c)) }
