import LesExt
import SwiftUI

@main
struct SampleApp: App {
    var body: some Scene {
        WindowGroup { ChatView() }
    }
}

/// Asks model.gguf in the app's documents, where the Files app or Xcode put it.
@MainActor
final class Chat: ObservableObject {
    @Published var answer = ""
    private var model: Model?
    private var task: Task<Void, Never>?

    func open() async {
        let file = URL.documentsDirectory.appending(path: "model.gguf")
        do {
            // Readable after the first unlock, also while the phone is locked; not copied into the cloud.
            try FileManager.default.setAttributes(
                [.protectionKey: FileProtectionType.completeUntilFirstUserAuthentication], ofItemAtPath: file.path)
            var url = file
            var values = URLResourceValues()
            values.isExcludedFromBackup = true
            try url.setResourceValues(values)
            model = try await Task.detached { try Model(path: file.path) }.value
        } catch {
            answer = error.localizedDescription
        }
    }

    func ask(_ prompt: String) {
        stop()
        guard let model else { return }
        guard ProcessInfo.processInfo.thermalState != .critical else {
            answer = "The phone is too hot."
            return
        }
        answer = ""
        task = Task {
            do {
                for try await piece in model.generate(prompt) { answer += piece }
            } catch {
                answer += "\n" + error.localizedDescription
            }
        }
    }

    func stop() {
        model?.cancel()
        task?.cancel()
    }

    func pressure(_ pressure: Pressure) { model?.pressure(pressure) }
}

struct ChatView: View {
    @StateObject private var chat = Chat()
    @State private var prompt = ""
    @Environment(\.scenePhase) private var phase

    var body: some View {
        VStack {
            TextField("Prompt", text: $prompt).onSubmit { chat.ask(prompt) }
            ScrollView { Text(chat.answer).frame(maxWidth: .infinity, alignment: .leading) }
        }
        .padding()
        .task { await chat.open() }
        .onChange(of: phase) { _, now in
            // In the background an app is suspended in mid-step at best, and ended at worst.
            if now == .background {
                chat.stop()
                chat.pressure(.critical)
            } else if now == .active {
                chat.pressure(.none)
            }
        }
        .onReceive(NotificationCenter.default.publisher(for: UIApplication.didReceiveMemoryWarningNotification)) { _ in
            chat.pressure(.moderate)
        }
        .onReceive(NotificationCenter.default.publisher(for: ProcessInfo.thermalStateDidChangeNotification)) { _ in
            if ProcessInfo.processInfo.thermalState == .critical { chat.stop() }
        }
    }
}
