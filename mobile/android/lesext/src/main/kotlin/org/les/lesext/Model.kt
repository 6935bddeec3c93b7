package org.les.lesext

import java.io.Closeable
import java.io.IOException
import java.util.concurrent.locks.ReentrantReadWriteLock
import kotlin.concurrent.read
import kotlin.concurrent.write

/** Takes the answer as it comes: UTF-8, whole characters. False ends it. */
fun interface Pieces {
    fun piece(utf8: ByteArray): Boolean
}

/** How short memory is; the numbers are those of les-mobile.h. */
enum class Pressure(val level: Int) { NONE(0), MODERATE(1), CRITICAL(2) }

/**
 * A model that is streamed from flash. Answers are generated one after the other; [cancel], [pressure] and
 * [close] may come from any thread, and [close] waits for the answer that is being generated.
 */
class Model private constructor(private var handle: Long) : Closeable {
    private val lock = ReentrantReadWriteLock() // closing excludes all other calls
    private val generating = Any() // one answer at a time

    /** Numbers a question that is put now and answered later, so that [cancel] in between ends it too. */
    fun ask(): Long = lock.read { ask(opened()) }

    /** Returns the number of tokens. Blocks: not for the main thread. */
    @Throws(IOException::class)
    fun generate(prompt: String, max: Int, pieces: Pieces, asked: Long = ask()): Int =
        synchronized(generating) {
            lock.read { generate(opened(), asked, prompt.toByteArray(), max, pieces) }
        }

    /** Ends the answers to all questions that were put so far. */
    fun cancel() = lock.read { if (handle != 0L) cancel(handle) }

    /** What the activity hears in onTrimMemory goes here. */
    fun pressure(pressure: Pressure) {
        lock.read { if (handle != 0L) pressure(handle, pressure.level) }
    }

    override fun close() {
        cancel()
        lock.write {
            if (handle != 0L) close(handle)
            handle = 0
        }
    }

    private fun opened(): Long {
        check(handle != 0L) { "the model is closed" }
        return handle
    }

    companion object {
        init {
            System.loadLibrary("les-jni")
        }

        /**
         * Opens a GGUF file. [libraries] is applicationInfo.nativeLibraryDir, where the kernels
         * for this processor are; a [budget] of 0 and [threads] of 0 leave the choice to LES.
         */
        @Throws(IOException::class)
        fun open(path: String, libraries: String, budget: Long = 0, threads: Int = 0): Model =
            Model(open(path.toByteArray(), libraries.toByteArray(), budget, threads))

        @JvmStatic private external fun open(path: ByteArray, libraries: ByteArray, budget: Long, threads: Int): Long
        @JvmStatic private external fun close(handle: Long)
        @JvmStatic private external fun ask(handle: Long): Long
        @JvmStatic private external fun generate(handle: Long, asked: Long, prompt: ByteArray, max: Int, pieces: Pieces): Int
        @JvmStatic private external fun cancel(handle: Long)
        @JvmStatic private external fun pressure(handle: Long, level: Int): Int
    }
}
