package probe

// System is what the operating system tells about a file and itself, as far as
// it matters for reading experts.
type System struct {
	FileSystem string `json:"file_system"` // its type, empty when unknown
	// DirectAlign is what direct reads must be aligned to: 0 when the system
	// does not tell, -1 when it tells that they are impossible.
	DirectAlign int64 `json:"direct_align"`
	// IOUring is "allowed", or the reason why it is not. LES reads without it.
	IOUring string `json:"io_uring"`
	// HugePages is the setting for transparent huge pages: always, madvise or
	// never; empty when there is none.
	HugePages  string `json:"huge_pages"`
	Processors int    `json:"processors"`
}
