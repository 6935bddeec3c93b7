package readq

import (
	"sync"

	"github.com/les-project/les/lesext/expert"
)

// Reader brings bytes of the model files into memory. Calls may be concurrent.
type Reader interface {
	// ReadExtent brings the wanted extent. Buf stands for want.ReadRange(): it
	// is as long, and its first byte stands for the first byte of that range.
	// When the call returns nil, all wanted bytes are in place; the padding
	// around them may or may not be. The file may end inside the padding.
	ReadExtent(want expert.Extent, buf []byte) error
}

// Read is one read a lane does.
type Read struct {
	ID   int // number in the Queue
	Want expert.Extent
	Buf  []byte
}

// Owner decides what lanes do.
type Owner interface {
	// Take blocks until there is a read to do. It returns false when the lane
	// has to end.
	Take() (Read, bool)
	// Done hands back a read with its result.
	Done(r Read, err error)
}

// Lanes is a fixed set of goroutines that read.
type Lanes struct{ wait sync.WaitGroup }

// StartLanes starts n lanes. They end when Take of the owner returns false.
func StartLanes(n int, reader Reader, owner Owner) *Lanes {
	l := &Lanes{}
	for range n {
		l.wait.Go(func() { lane(reader, owner) })
	}
	return l
}

// Wait waits until all lanes have ended.
func (l *Lanes) Wait() { l.wait.Wait() }

func lane(reader Reader, owner Owner) {
	for {
		r, ok := owner.Take()
		if !ok {
			return
		}
		owner.Done(r, reader.ReadExtent(r.Want, r.Buf))
	}
}
