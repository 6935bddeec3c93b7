// Kotlin's way into les-mobile.h. Text crosses as bytes in UTF-8: JNI's own strings are of another kind.

#include "les-mobile.h"

#include <jni.h>

#include <stdlib.h>
#include <string.h>

static struct les_mobile * from(jlong handle) {
    return (struct les_mobile *) (intptr_t) handle;
}

// A copy of the bytes with an end; NULL for none. The caller frees it.
static char * text_of(JNIEnv * env, jbyteArray bytes) {
    if (!bytes) {
        return NULL;
    }
    const jsize n    = (*env)->GetArrayLength(env, bytes);
    char *      text = malloc((size_t) n + 1);
    if (text) {
        (*env)->GetByteArrayRegion(env, bytes, 0, n, (jbyte *) text);
        text[n] = 0;
    }
    return text;
}

static jbyteArray bytes_of(JNIEnv * env, const char * text) {
    const jsize n     = (jsize) strlen(text);
    jbyteArray  bytes = (*env)->NewByteArray(env, n);
    if (bytes) {
        (*env)->SetByteArrayRegion(env, bytes, 0, n, (const jbyte *) text);
    }
    return bytes;
}

// A string of text in UTF-8, NULL with an exception pending.
static jstring string_of(JNIEnv * env, const char * text) {
    jclass     type  = (*env)->FindClass(env, "java/lang/String");
    jmethodID  make  = type ? (*env)->GetMethodID(env, type, "<init>", "([BLjava/lang/String;)V") : NULL;
    jbyteArray bytes = make ? bytes_of(env, text) : NULL;
    jstring    utf8  = bytes ? (*env)->NewStringUTF(env, "UTF-8") : NULL;
    return utf8 ? (*env)->NewObject(env, type, make, bytes, utf8) : NULL;
}

// Throws an IOException, whose text JNI's own ThrowNew would take for its kind of UTF-8: names of files may be of any.
static void fail(JNIEnv * env, const char * reason) {
    jclass    type = (*env)->FindClass(env, "java/io/IOException");
    jmethodID make = type ? (*env)->GetMethodID(env, type, "<init>", "(Ljava/lang/String;)V") : NULL;
    jstring   text = make ? string_of(env, reason) : NULL;
    jthrowable e   = text ? (jthrowable) (*env)->NewObject(env, type, make, text) : NULL;
    if (e) {
        (*env)->Throw(env, e);
    }
}

JNIEXPORT jlong JNICALL Java_org_les_lesext_Model_open(JNIEnv * env, jclass type, jbyteArray model, jbyteArray libraries,
        jlong budget, jint threads) {
    char error[1024] = "out of memory";
    char * model_path   = text_of(env, model);
    char * library_path = text_of(env, libraries);
    struct les_mobile * m = NULL;
    if (model_path) {
        m = les_mobile_open(&(struct les_mobile_params) {
            .model_path = model_path, .library_path = library_path, .budget_bytes = budget > 0 ? (uint64_t) budget : 0, .n_threads = threads,
        }, error, sizeof(error));
    }
    free(model_path);
    free(library_path);
    if (!m) {
        fail(env, error);
    }
    (void) type;
    return (jlong) (intptr_t) m;
}

JNIEXPORT void JNICALL Java_org_les_lesext_Model_close(JNIEnv * env, jclass type, jlong handle) {
    les_mobile_close(from(handle));
    (void) env;
    (void) type;
}

// Who wants the pieces, for the thread that generates.
struct listener {
    JNIEnv *  env;
    jobject   object;
    jmethodID method;
};

static bool hand_over(void * user, const char * text) {
    const struct listener * l = user;
    jbyteArray bytes = bytes_of(l->env, text);
    if (!bytes) {
        return false;
    }
    const bool more = (*l->env)->CallBooleanMethod(l->env, l->object, l->method, bytes);
    (*l->env)->DeleteLocalRef(l->env, bytes);
    return more && !(*l->env)->ExceptionCheck(l->env);
}

JNIEXPORT jlong JNICALL Java_org_les_lesext_Model_ask(JNIEnv * env, jclass type, jlong handle) {
    (void) env;
    (void) type;
    return les_mobile_ask(from(handle));
}

JNIEXPORT jint JNICALL Java_org_les_lesext_Model_generate(JNIEnv * env, jclass type, jlong handle, jlong asked, jbyteArray prompt,
        jint max, jobject pieces) {
    struct listener l = { .env = env, .object = pieces };
    l.method = (*env)->GetMethodID(env, (*env)->GetObjectClass(env, pieces), "piece", "([B)Z");
    if (!l.method) {
        return -1; // with an exception pending
    }
    char * text = text_of(env, prompt);
    if (!text) {
        fail(env, "out of memory");
        return -1;
    }
    const struct les_mobile_question question = { .asked = asked, .prompt = text, .n_max = max };
    const jint n = les_mobile_generate(from(handle), &question, hand_over, &l);
    free(text);
    if (n < 0 && !(*env)->ExceptionCheck(env)) {
        fail(env, les_mobile_error(from(handle)));
    }
    (void) type;
    return n;
}

JNIEXPORT void JNICALL Java_org_les_lesext_Model_cancel(JNIEnv * env, jclass type, jlong handle) {
    les_mobile_cancel(from(handle));
    (void) env;
    (void) type;
}

JNIEXPORT jint JNICALL Java_org_les_lesext_Model_pressure(JNIEnv * env, jclass type, jlong handle, jint level) {
    (void) env;
    (void) type;
    return les_mobile_pressure(from(handle), level);
}
