import Foundation
import LesExtC

/// What went wrong, in the words of the library.
public struct ModelError: LocalizedError {
    public let reason: String
    public var errorDescription: String? { reason }
}

/// How short memory is; the numbers are those of les-mobile.h.
public enum Pressure: Int32 {
    case none = 0, moderate = 1, critical = 2
}

/// A model that is streamed from flash. Answers are generated one after the other on a thread of
/// their own; `cancel` and `pressure` may be called from anywhere meanwhile.
public final class Model: @unchecked Sendable {
    private let handle: OpaquePointer
    private let queue = DispatchQueue(label: "les.model", qos: .userInitiated)

    /// The kernels are compiled for A13 and later.
    public static var isSupported: Bool {
        #if targetEnvironment(simulator)
        return true
        #else
        var has: Int32 = 0
        var size = MemoryLayout<Int32>.size
        return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nil, 0) == 0 && has == 1
        #endif
    }

    /// Opens a GGUF file. A budget of 0 leaves the choice to LES, which asks the system how much
    /// this app may still take. Blocks while the weights that stay in memory are read.
    public init(path: String, budget: UInt64 = 0, threads: Int32 = 0) throws {
        guard Model.isSupported else { throw ModelError(reason: "this device is older than A13") }
        let capacity = 1024
        var error = [CChar](repeating: 0, count: capacity)
        let opened = path.withCString { name -> OpaquePointer? in
            var params = les_mobile_params()
            params.model_path = name
            params.budget_bytes = budget
            params.n_threads = threads
            return les_mobile_open(&params, &error, capacity)
        }
        guard let opened else { throw ModelError(reason: error.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }) }
        handle = opened
    }

    deinit { les_mobile_close(handle) }

    /// The answer, piece by piece. Ending the iteration ends the answer with its next piece.
    public func generate(_ prompt: String, max: Int32 = 256) -> AsyncThrowingStream<String, Error> {
        let asked = les_mobile_ask(handle)
        return AsyncThrowingStream { continuation in
            queue.async { self.run(prompt, (asked, max), continuation) }
        }
    }

    /// Ends the answers to all questions that were put so far.
    public func cancel() { les_mobile_cancel(handle) }

    public func pressure(_ pressure: Pressure) { _ = les_mobile_pressure(handle, pressure.rawValue) }

    private func run(_ prompt: String, _ limits: (asked: Int64, max: Int32), _ continuation: AsyncThrowingStream<String, Error>.Continuation) {
        let box = Box(continuation)
        let n = prompt.withCString { text -> Int32 in
            var question = les_mobile_question()
            question.asked = limits.asked
            question.prompt = text
            question.n_max = limits.max
            return les_mobile_generate(handle, &question, Model.handOver, Unmanaged.passUnretained(box).toOpaque())
        }
        withExtendedLifetime(box) {}
        continuation.finish(throwing: n < 0 ? ModelError(reason: String(cString: les_mobile_error(handle))) : nil)
    }

    private static let handOver: les_mobile_piece = { user, text in
        let box = Unmanaged<Box>.fromOpaque(user!).takeUnretainedValue()
        if case .terminated = box.continuation.yield(String(cString: text!)) { return false }
        return true
    }

    private final class Box {
        let continuation: AsyncThrowingStream<String, Error>.Continuation
        init(_ continuation: AsyncThrowingStream<String, Error>.Continuation) { self.continuation = continuation }
    }
}
