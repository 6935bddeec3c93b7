// The C side of the log callback; see log.go.
#ifndef LES_LLAMA_LOG_H
#define LES_LLAMA_LOG_H

void les_llama_log_install(void);

#endif
