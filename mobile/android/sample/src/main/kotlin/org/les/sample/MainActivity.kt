package org.les.sample

import android.app.Activity
import android.app.ActivityManager
import android.content.ComponentCallbacks2
import android.os.Build
import android.os.Bundle
import android.os.PowerManager
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.ScrollView
import android.widget.TextView
import java.io.File
import java.util.concurrent.Executors
import org.les.lesext.Model
import org.les.lesext.Pieces
import org.les.lesext.Pressure

/** Asks the model that was put into the app's own folder of files: model.gguf. */
class MainActivity : Activity() {
    private val worker = Executors.newSingleThreadExecutor()
    @Volatile private var model: Model? = null
    private lateinit var answer: TextView

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        val prompt = EditText(this).apply { hint = "Prompt" }
        val ask = Button(this).apply { text = "Ask" }
        answer = TextView(this)
        ask.setOnClickListener { ask(prompt.text.toString()) }
        setContentView(LinearLayout(this).apply {
            orientation = LinearLayout.VERTICAL
            addView(prompt)
            addView(ask)
            addView(ScrollView(context).apply { addView(answer) })
        })
        worker.execute(::open)
        stopWhenHot()
    }

    private fun open() {
        val file = File(getExternalFilesDir(null), "model.gguf")
        try {
            model = Model.open(file.path, applicationInfo.nativeLibraryDir, budget())
        } catch (e: Exception) {
            show(e.message ?: e.toString())
        }
    }

    /** What is free above the mark at which the system begins to end processes, less a part for what comes. */
    private fun budget(): Long {
        val memory = ActivityManager.MemoryInfo()
        getSystemService(ActivityManager::class.java).getMemoryInfo(memory)
        return (memory.availMem - memory.threshold) / 10 * 7
    }

    private fun ask(prompt: String) {
        val model = model ?: return
        val asked = model.ask()
        answer.text = ""
        worker.execute {
            try {
                val pieces = Pieces { utf8 ->
                    show(String(utf8))
                    true
                }
                model.generate(prompt, 256, pieces, asked)
            } catch (e: Exception) {
                show(e.message ?: e.toString())
            }
        }
    }

    private fun show(text: String) = runOnUiThread { answer.append(text) }

    /** A hot phone slows down by half and more; it is better to wait. */
    private fun stopWhenHot() {
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) {
            getSystemService(PowerManager::class.java).addThermalStatusListener { status ->
                if (status >= PowerManager.THERMAL_STATUS_SEVERE) model?.cancel()
            }
        }
    }

    @Suppress("DEPRECATION") // newer systems tell only of being hidden; older ones still tell the rest
    override fun onTrimMemory(level: Int) {
        super.onTrimMemory(level)
        model?.pressure(
            when {
                level >= ComponentCallbacks2.TRIM_MEMORY_UI_HIDDEN -> Pressure.CRITICAL
                level >= ComponentCallbacks2.TRIM_MEMORY_RUNNING_CRITICAL -> Pressure.CRITICAL
                else -> Pressure.MODERATE
            },
        )
    }

    override fun onStart() {
        super.onStart()
        model?.pressure(Pressure.NONE)
    }

    /** Nobody sees the answer any more, and a process in the background that computes is ended. */
    override fun onStop() {
        super.onStop()
        model?.cancel()
    }

    override fun onDestroy() {
        super.onDestroy()
        worker.execute { model?.close() }
        worker.shutdown()
    }
}
