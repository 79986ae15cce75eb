package coordinator

// Client is who sent a request: the part of the request header and of the connection that decisions look at.
type Client struct {
	// ID is the client id of the request header.
	ID string
	// Host is the peer address printed as Java prints it, such as "/10.0.0.7".
	Host string
	// Principal is the authenticated user; "User:ANONYMOUS" without authentication.
	Principal string
}
