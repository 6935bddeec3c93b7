// Package sim replays recorded routes. Count puts them through the pool of slots
// and a policy alone, which tells what a policy hits at each size. Run puts them,
// with the guesses, through the real scheduler on a virtual clock and a model of
// a device, which tells what the reads would cost. Both are deterministic, read
// no file and compute no expert.
//
// The policies here are what the engine's is compared with. They look at every
// candidate for each victim, which is fine in a replay and nowhere else.
package sim
