package slot

// lists is a fixed set of doubly linked lists over slot numbers, in two arrays.
// A slot is on at most one list of a set. List i has the sentinel node slots+i,
// so that removing a slot needs no knowledge of its list.
type lists struct {
	next, prev []int32
	slots      int32
}

func newLists(slots, n int) lists {
	l := lists{next: make([]int32, slots+n), prev: make([]int32, slots+n), slots: int32(slots)}
	for i := range l.next {
		l.next[i], l.prev[i] = int32(i), int32(i)
	}
	return l
}

func (l *lists) pushFront(list int, slot int32) { l.insertAfter(l.slots+int32(list), slot) }

func (l *lists) pushBack(list int, slot int32) { l.insertAfter(l.prev[l.slots+int32(list)], slot) }

func (l *lists) insertAfter(at, slot int32) {
	if l.next[slot] != slot {
		panic("slot: a slot is put on two lists")
	}
	l.next[slot], l.prev[slot] = l.next[at], at
	l.prev[l.next[slot]] = slot
	l.next[at] = slot
}

func (l *lists) remove(slot int32) {
	l.next[l.prev[slot]], l.prev[l.next[slot]] = l.next[slot], l.prev[slot]
	l.next[slot], l.prev[slot] = slot, slot
}

// first returns the first slot of a list, or -1.
func (l *lists) first(list int) int32 { return l.real(l.next[l.slots+int32(list)]) }

// after returns the slot that follows on the same list, or -1.
func (l *lists) after(slot int32) int32 { return l.real(l.next[slot]) }

func (l *lists) real(node int32) int32 {
	if node >= l.slots {
		return -1
	}
	return node
}

// splice moves all slots of list from to the front of list to.
func (l *lists) splice(from, to int) {
	f, t := l.slots+int32(from), l.slots+int32(to)
	if l.next[f] == f {
		return
	}
	head, tail := l.next[f], l.prev[f]
	l.next[f], l.prev[f] = f, f
	l.next[tail], l.prev[l.next[t]] = l.next[t], tail
	l.next[t], l.prev[head] = head, t
}
