package host

import "testing"

func TestSlotsMakeRoomForWhatAProcessOutgrowsItsBudgetBy(t *testing.T) {
	const mib = 1 << 20
	var o outgrown
	if o.look(4000*mib, 4096*mib) || o.bytes != 0 {
		t.Errorf("within the budget: %+v", o)
	}
	if !o.look(4196*mib, 4096*mib) || o.bytes != 164*mib {
		t.Errorf("100 MiB above it: %+v", o)
	}
	if !o.look(4106*mib, 4096*mib) || o.bytes != 238*mib {
		t.Errorf("and 10 MiB more: %+v", o)
	}
	for range 2 * guardPatience {
		if o.look(4000*mib, 4096*mib) {
			t.Fatal("slots come back although there is little room")
		}
	}
	for i := range guardPatience {
		if back := o.look(3896*mib, 4096*mib); back != (i == guardPatience-1) {
			t.Fatalf("look %d: %v", i, back)
		}
	}
	if o.bytes != 238*mib-(200-64)*mib {
		t.Errorf("after room was found: %+v", o)
	}
}
