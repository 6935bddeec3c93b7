package main

// maxrssUnit is what the kernel counts the peak in.
const maxrssUnit = 1
