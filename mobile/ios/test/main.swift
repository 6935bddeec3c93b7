// Runs Model.swift on the reference model where there is a Swift compiler, Linux included. Given a model and a file for the answer.
import Foundation

#if !canImport(Darwin)
/// Apple's question about the processor; here, a yes.
func sysctlbyname(
    _ name: UnsafePointer<CChar>, _ old: UnsafeMutableRawPointer?, _ size: UnsafeMutablePointer<Int>?, _ new: UnsafeMutableRawPointer?,
    _ newSize: Int
) -> Int32 {
    old?.storeBytes(of: 1, as: Int32.self)
    return 0
}
#endif

func check(_ good: Bool, _ what: String) {
    guard !good else { return }
    FileHandle.standardError.write(Data("test-model-swift: \(what)\n".utf8))
    exit(1)
}

func answer(_ model: Model) async throws -> String {
    var text = ""
    for try await piece in model.generate("func main() {", max: 16) { text += piece }
    return text
}

do {
    _ = try Model(path: "none-ä€😀.gguf")
    check(false, "opened what is not there")
} catch {
    check(error.localizedDescription.hasPrefix("none-ä€😀.gguf: "), error.localizedDescription)
}

let model = try Model(path: CommandLine.arguments[1], threads: 2)
let first = try await answer(model)
check(!first.isEmpty, "no answer")

model.pressure(.critical)
let short = try await answer(model)
check(short == first, "another answer while memory is short")

let canceled = model.generate("func main() {", max: 16)
model.cancel()
for try await piece in canceled { check(false, "a piece after a cancel: \(piece)") }

for try await _ in model.generate("func main() {", max: 64) { break }
let later = try await answer(model)
check(later == first, "another answer after one that was not wanted to its end")

try Data((first + "\n").utf8).write(to: URL(fileURLWithPath: CommandLine.arguments[2]))
