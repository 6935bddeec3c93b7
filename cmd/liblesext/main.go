// Command liblesext builds liblesext-engine, the library that libllama opens in
// programs that want experts streamed. It holds package host and one function
// that registers it.
package main

import "C"

import "github.com/les-project/les/cgo/host"

//export les_engine_register
func les_engine_register() C.int {
	if err := host.Register(); err != nil {
		return -1
	}
	return 0
}

func main() {}
