package org.les.lesext;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

interface Pieces {
    boolean piece(byte[] utf8);
}

/** Stands for Model.kt, whose native functions are these, so that any JDK can run les-jni.c. Given the library, a model and a file for the answer. */
final class Model {
    private static native long open(byte[] path, byte[] libraries, long budget, int threads) throws IOException;
    private static native void close(long handle);
    private static native long ask(long handle);
    private static native int generate(long handle, long asked, byte[] prompt, int max, Pieces pieces) throws IOException;
    private static native void cancel(long handle);
    private static native int pressure(long handle, int level);

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void check(boolean good, String what) {
        if (!good) {
            throw new AssertionError(what);
        }
    }

    /** Names of files may hold any character; the error does too. */
    private static void refusesByName(String path) throws IOException {
        try {
            open(utf8(path), null, 0, 2);
        } catch (IOException e) {
            check(e.getMessage().startsWith(path + ": "), e.getMessage());
            return;
        }
        throw new AssertionError("opened " + path);
    }

    private static String answer(long handle, long asked) throws IOException {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        int n = generate(handle, asked, utf8("func main() {"), 16, piece -> {
            text.writeBytes(piece);
            return true;
        });
        check(n >= 0, "a number of tokens");
        return text.toString(StandardCharsets.UTF_8);
    }

    /** What a listener throws ends the answer and reaches who asked. */
    private static void endsWithTheListener(long handle) throws IOException {
        try {
            generate(handle, ask(handle), utf8("func main() {"), 16, piece -> {
                throw new IllegalStateException("enough");
            });
        } catch (IllegalStateException e) {
            check(e.getMessage().equals("enough"), e.getMessage());
            return;
        }
        throw new AssertionError("the exception was lost");
    }

    public static void main(String[] arguments) throws IOException {
        System.load(arguments[0]);
        refusesByName("none-\u00e4\u20ac\ud83d\ude00.gguf");
        long handle = open(utf8(arguments[1]), null, 0, 2);
        String first = answer(handle, ask(handle));
        long asked = ask(handle);
        cancel(handle);
        check(answer(handle, asked).isEmpty(), "a cancel between question and answer");
        endsWithTheListener(handle);
        check(pressure(handle, 2) == 0, "pressure");
        check(answer(handle, ask(handle)).equals(first), "the same answer");
        close(handle);
        Files.writeString(Path.of(arguments[2]), first + "\n");
    }
}
