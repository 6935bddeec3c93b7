// The files of a model as far as compute threads read them: rows, a few at a time. Experts are read by the scheduler.

#include "les-impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LES_ATTEMPTS 3 // as for experts: a device that fails once may be asked again

static bool les_model_has_rows_in(const struct les_model * model, int32_t file) {
    for (int32_t i = 0; i < model->n_weights; i++) {
        if (model->weights[i]->rows && model->weights[i]->file == file) {
            return true;
        }
    }
    return false;
}

static void les_file_close(struct les_file * f) {
    if (f->path) {
        les_os_file_close(f->handle);
        free(f->path);
        f->path = NULL;
    }
}

// Makes room for the file with this number.
static struct les_file * les_model_file(struct les_model * model, int32_t file) {
    if (file >= model->n_files) {
        struct les_file * files = realloc(model->files, ((size_t) file + 1)*sizeof(*files));
        if (!files) {
            return NULL;
        }
        memset(files + model->n_files, 0, (size_t) (file + 1 - model->n_files)*sizeof(*files));
        model->files   = files;
        model->n_files = file + 1;
    }
    return &model->files[file];
}

int32_t les_model_set_file(struct les_model * model, int32_t file, const char * path) {
    if (file < 0 || !les_model_has_rows_in(model, file)) {
        return 0;
    }
    struct les_file * f    = les_model_file(model, file);
    char *            copy = f ? strdup(path) : NULL;
    if (!copy) {
        les_model_errorf(model, "out of memory for the name of %s", path);
        return -1;
    }
    les_file_close(f);
    f->handle = les_os_file_open(path);
    if (f->handle < 0) {
        les_model_errorf(model, "cannot open %s: %s", path, strerror(errno));
        free(copy);
        return -1;
    }
    f->path = copy;
    return 0;
}

void les_model_close_files(struct les_model * model) {
    for (int32_t i = 0; i < model->n_files; i++) {
        les_file_close(&model->files[i]);
    }
    free(model->files);
}

bool les_weight_read(const struct les_weight * w, void * buf, uint64_t at, size_t n_bytes) {
    struct les_model * model = w->model;
    if (w->file >= model->n_files || !model->files[w->file].path) {
        les_model_errorf(model, "tensor %s: its file is not open: les_model_set_file has not been called", w->tensor->name);
        return false;
    }
    const struct les_file * f = &model->files[w->file];
    int error = 0;
    for (int i = 0; i < LES_ATTEMPTS; i++) {
        error = les_os_file_read(f->handle, buf, n_bytes, w->off + at);
        if (error <= 0) {
            break;
        }
    }
    if (error == 0) {
        return true;
    }
    les_model_errorf(model, "tensor %s: read %s at 0x%llx, %zu bytes: %s; check the file and its storage device", w->tensor->name, f->path,
            (unsigned long long) (w->off + at), n_bytes, error < 0 ? "unexpected EOF" : strerror(error));
    return false;
}
