/* Base64; see registry_text.h. Pure. */
#include "registry_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *registry_base64(const char *bytes, size_t length)
{
    char *text = malloc((length + 2) / 3 * 4 + 1), *at = text;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        unsigned group = (unsigned)(unsigned char)bytes[i] << 16;
        group |= left > 1 ? (unsigned)(unsigned char)bytes[i + 1] << 8 : 0;
        group |= left > 2 ? (unsigned)(unsigned char)bytes[i + 2] : 0;
        *at++ = digits[group >> 18];
        *at++ = digits[group >> 12 & 63];
        *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[group & 63] : '=';
    }
    *at = '\0';
    return text;
}

int registry_base64_decode(const char *text, char *ret_text, size_t size)
{
    size_t length = strlen(text), used = 0;
    while (length > 0 && text[length - 1] == '=')
        length--;
    if (length % 4 == 1 || strlen(text) - length > 2)
        return -EINVAL;
    unsigned group = 0, bits = 0;
    for (size_t i = 0; i < length; i++) {
        const char *digit = strchr(digits, text[i]);
        if (digit == NULL)
            return -EINVAL;
        group = group << 6 | (unsigned)(digit - digits);
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        char byte = (char)(group >> bits & 0xff);
        if (byte == '\0' || used + 1 >= size)
            return -EINVAL;
        ret_text[used++] = byte;
    }
    ret_text[used] = '\0';
    return (int)used;
}
