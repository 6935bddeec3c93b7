plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "org.les.sample"
    compileSdk = 35
    defaultConfig {
        applicationId = "org.les.sample"
        minSdk = 28
        targetSdk = 35
        versionCode = 1
        versionName = "1"
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
    kotlinOptions { jvmTarget = "17" }
    // The kernels are chosen from the files of a folder, so that they must be files.
    packaging { jniLibs.useLegacyPackaging = true }
}

dependencies { implementation(project(":lesext")) }
