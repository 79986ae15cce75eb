package topology

// Shuffled is for tests outside the package.
var Shuffled = shuffled
