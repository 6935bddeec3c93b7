// swift-tools-version:5.9
import PackageDescription

let package = Package(
    name: "LesExt",
    platforms: [.iOS(.v17)],
    products: [.library(name: "LesExt", targets: ["LesExt"])],
    targets: [
        .binaryTarget(name: "LesExtC", path: "LesExt.xcframework"),
        .target(name: "LesExt", dependencies: ["LesExtC"], linkerSettings: [.linkedLibrary("c++"), .linkedLibrary("resolv")]),
    ]
)
