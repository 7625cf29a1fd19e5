# Replicate a study of replearn in R: base R and jsonlite, nothing else.
#
#   source("replicate.R")
#   study <- replearn$study("study.json")
#   found <- replearn$replicate(study, "patients.csv")   # or a data.frame
#   found                                                # the same model?
#   replearn$save(found$model, "model.json")             # the bytes that Python writes
#   predict(found$model, newdata)                        # probabilities
#   coef(found$model)                                    # per unit, with their constant
#
# The specification is docs/format.md. Only + - * / sqrt and floor of float64 reach a code, one
# operation after the other. R adds up in more digits than float64 has in sum(), cumsum() and %*%:
# here they get whole numbers below 2^53 only, of which every order gives the same sum.

replearn <- local({

refuse <- function(...) {
  stop(structure(class = c("replearn_refusal", "error", "condition"),
                 list(message = paste0(...), call = NULL)))
}

counted <- function(n) format(n, big.mark = ",", scientific = FALSE, trim = TRUE)
quoted <- function(names, most = 8) {
  shown <- paste0("'", head(names, most), "'", collapse = ", ")
  if (length(names) > most) paste0(shown, " and ", length(names) - most, " more") else shown
}

# --- decimal texts -------------------------------------------------------------------------------
NUMBER <- "^[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?$"
JSON_NUMBER <- "^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?$"

# Numbers of decimal texts, correctly rounded. as.numeric() is wrong in the last bit once in some
# thousand texts; jsonlite asks the C library, which is right.
decimals <- function(texts) {
  if (!length(texts)) return(numeric(0))
  odd <- !grepl(JSON_NUMBER, texts, perl = TRUE)
  if (any(odd)) {
    t <- sub("^\\+", "", texts[odd])
    t <- sub("^(-?)0+([0-9])", "\\1\\2", t)
    t <- sub("^(-?)\\.", "\\10.", t)
    texts[odd] <- sub("\\.($|[eE])", "\\1", t)
  }
  as.double(unlist(jsonlite::parse_json(paste0("[", paste(texts, collapse = ","), "]"))))
}

# Numbers as ECMAScript writes them: the shortest digits that are read as the same number.
number_texts <- function(x) {
  out <- character(length(x))
  whole <- abs(x) < 2^53 & x == floor(x)
  out[whole] <- sprintf("%.0f", x[whole] + 0)
  left <- which(!whole)
  for (digits in if (any(abs(x) < 1e-300)) 1:17 else 15:17) {  # zeros at the end are dropped
    if (!length(left)) break
    tried <- sprintf("%.*e", digits - 1L, x[left])
    right <- decimals(tried) == x[left]
    out[left[right]] <- vapply(tried[right], ecmascript, "")
    left <- left[!right]
  }
  out
}

ecmascript <- function(text) {  # of [-]d.ddde+dd
  parts <- regmatches(text, regexec("^(-?)([0-9])[.]?([0-9]*?)0*e(.*)$", text, perl = TRUE))[[1]]
  digits <- paste0(parts[3], parts[4])
  n <- nchar(digits)
  point <- as.integer(parts[5]) + 1L
  paste0(parts[2],
    if (n <= point && point <= 21) paste0(digits, strrep("0", point - n))
    else if (0 < point && point <= 21) sub(sprintf("^(.{%d})", point), "\\1.", digits)
    else if (-6 < point && point <= 0) paste0("0.", strrep("0", -point), digits)
    else paste0(parts[3], if (n > 1) ".", parts[4], sprintf("e%+d", point - 1L)))
}

# --- canonical JSON and SHA-256 ------------------------------------------------------------------
ESCAPES <- sprintf("\\u%04x", 1:31)
ESCAPES[c(8, 9, 10, 12, 13)] <- c("\\b", "\\t", "\\n", "\\f", "\\r")

json_text <- function(text) {
  text <- gsub("([\\\\\"])", "\\\\\\1", enc2utf8(text), perl = TRUE)
  for (code in intersect(utf8ToInt(text), 1:31))
    text <- gsub(intToUtf8(code), ESCAPES[code], text, fixed = TRUE)
  paste0("\"", text, "\"")
}

# Lists with names are objects, lists without are arrays, as jsonlite::parse_json() gives them. Keys of
# replearn's files are ASCII, so that the order of bytes is that of UTF-16.
canonical <- function(value) {
  if (is.null(value)) return("null")
  if (is.list(value) && is.null(names(value))) {
    plain <- all(vapply(value, function(v) is.numeric(v) && length(v) == 1, NA))
    parts <- if (plain) number_texts(as.double(unlist(value))) else vapply(value, canonical, "")
    return(paste0("[", paste(parts, collapse = ","), "]"))
  }
  if (is.list(value)) {
    value <- value[order(names(value), method = "radix")]
    parts <- paste0(vapply(names(value), json_text, ""), ":", vapply(value, canonical, ""))
    return(paste0("{", paste(parts[seq_along(value)], collapse = ","), "}"))
  }
  if (is.logical(value)) return(if (value) "true" else "false")
  if (is.character(value)) json_text(value) else number_texts(as.double(value))
}

# SHA-256 takes its constants from the fractions of roots of the first primes. Integers of R have no
# 2^31, so a word of 32 bits is two of 16, the upper one first.
PRIMES <- Filter(function(n) n == 2 || all(n %% 2:ceiling(sqrt(n)) > 0), 2:311)
root_halves <- function(roots) {
  words <- floor((roots - floor(roots)) * 2^32)
  rbind(as.integer(words %/% 65536), as.integer(words %% 65536))
}
SHA_START <- root_halves(sqrt(PRIMES[1:8]))
SHA_ROUNDS <- root_halves(PRIMES^(1 / 3))
TURNS <- lapply(list(c(6, 2), c(11, 13), c(9, 6)), function(n) rep(as.integer(2^n), each = 2))
BACK <- lapply(TURNS, function(turn) 65536L %/% turn)

# SHA-256 of bytes, in hex; of many messages at once, since R is slow at single steps.
sha256 <- function(...) {
  messages <- list(...)
  out <- character(length(messages))
  for (same in split(seq_along(messages), (lengths(messages) + 8) %/% 64))
    out[same] <- hashed(messages[same])
  out
}

# The same of messages of as many blocks.
hashed <- function(messages) {
  bytes <- unlist(lapply(messages, function(bytes) {
    n <- length(bytes)
    as.integer(c(bytes, as.raw(128), raw((55 - n) %% 64), as.raw((n * 8) %/% 256^(7:0) %% 256)))
  }))
  M <- length(messages)
  m <- length(bytes) / 64
  halves <- array(bytes[c(TRUE, FALSE)] * 256L + bytes[c(FALSE, TRUE)], c(2, 16, m))
  words <- lapply(1:16, function(i) t(matrix(halves[, i, ], 2)))  # of all blocks
  for (i in 17:64) {
    a <- words[[i - 15]]
    b <- words[[i - 2]]
    sum <- words[[i - 16]] + words[[i - 7]] +
      bitwXor(bitwXor(turned(a, 7), turned(a[, 2:1], 2)), turned(a, 3, FALSE)) +
      bitwXor(bitwXor(turned(b[, 2:1], 1), turned(b[, 2:1], 3)), turned(b, 10, FALSE))
    words[[i]] <- cbind(sum[, 1] + sum[, 2] %/% 65536L, sum[, 2]) %% 65536L
  }
  words <- aperm(array(unlist(words), c(m, 2, 64)), c(2, 3, 1)) + as.vector(SHA_ROUNDS)
  words <- aperm(array(words, c(2, 64, m / M, M)), c(1, 4, 2, 3))
  places <- matrix(seq_len(4 * M), 4)  # of each message: e and a, f and b, g and c, h and d
  first <- as.vector(places[1:2, ]); second <- as.vector(places[3:4, ])
  high <- as.vector(places[c(1, 3), ]); low <- as.vector(places[c(2, 4), ])
  state <- rbind(SHA_START[, 5:8], SHA_START[, 1:4])[rep(1:4, M), ]
  for (block in seq_len(m / M)) {
    v <- state[, 1]; u <- state[, 2]; w <- state[, 3]; q <- state[, 4]
    for (i in 1:64) {
      x <- v
      x[high] <- v[low]
      x[low] <- v[high]
      other <- bitwAnd(u, w)
      other[first] <- w[first]
      sums <- bitwXor(bitwXor(v %/% TURNS[[1]] + x %% TURNS[[1]] * BACK[[1]],
                              v %/% TURNS[[2]] + x %% TURNS[[2]] * BACK[[2]]),
                      x %/% TURNS[[3]] + v %% TURNS[[3]] * BACK[[3]]) +
        bitwXor(bitwAnd(v, bitwXor(u, w)), other)
      both <- q[first] + sums[first] + as.vector(words[, , i, block])
      new <- q
      new[first] <- q[second] + both
      new[second] <- sums[second] + both
      q <- w; w <- u; u <- v
      new[high] <- new[high] + new[low] %/% 65536L
      v <- new %% 65536L
    }
    state <- state + cbind(v, u, w, q)
    state[high, ] <- state[high, ] + state[low, ] %/% 65536L
    state <- state %% 65536L
  }
  vapply(seq_len(M), function(i) paste(collapse = "", sprintf("%04x", c(
    state[places[3:4, i], ], state[places[1:2, i], ]))), "")
}

# Words, a row for each, turned or shifted right by n < 16 bits.
turned <- function(words, n, is_turn = TRUE) {
  words <- matrix(words, ncol = 2)
  over <- words[, 2:1] %% as.integer(2^n) * as.integer(2^(16 - n))
  words %/% as.integer(2^n) + over * rep(c(as.integer(is_turn), 1L), each = nrow(words))
}

fingerprint_of <- function(content) sha256(charToRaw(canonical(content)))

# --- coins ---------------------------------------------------------------------------------------
xor16 <- function(a, b) matrix(as.double(bitwXor(as.integer(a), as.integer(b))), ncol = 4)

# The product of words with a constant, as 128 bits: eight columns of 16 bits, the lowest first.
product <- function(words, constant) {
  out <- matrix(0, nrow(words), 8)
  for (i in 1:4) for (j in 1:4) out[, i + j - 1] <- out[, i + j - 1] + words[, i] * constant[j]
  for (i in 1:7) {
    over <- floor(out[, i] / 65536)
    out[, i] <- out[, i] - over * 65536
    out[, i + 1] <- out[, i + 1] + over
  }
  out
}

added64 <- function(a, b) {
  sum <- a + b
  for (i in 1:3) sum[i + 1] <- sum[i + 1] + sum[i] %/% 65536
  sum %% 65536
}

# Words of a named stream, a row of four numbers of 16 bits each, the lowest first.
coin_words <- function(seed, stream, n, row = 0) {
  seed <- charToRaw(enc2utf8(seed))
  digest <- sha256(c(charToRaw("replearn/streams/1\n"), as.raw(length(seed) %/% 256^(0:7) %% 256),
                     seed, charToRaw(enc2utf8(stream))))
  bytes <- strtoi(substring(digest, seq(1, 31, 2), seq(2, 32, 2)), 16)
  keys <- matrix(bytes[c(TRUE, FALSE)] + 256 * bytes[c(FALSE, TRUE)], 4)
  k <- keys[, 1]
  l <- keys[, 2]
  m <- ceiling(n / 4)
  limbs <- function(x) cbind(x %% 65536, x %/% 65536, rep(0, m), 0)
  a <- limbs(seq_len(m))
  b <- limbs(row)
  c_ <- d <- limbs(0)
  for (round in 1:10) {
    p <- product(a, c(0x6c93, 0xe14c, 0x470e, 0xd2e7))
    q <- product(c_, c(0x1157, 0x9512, 0x8263, 0xca5a))
    a <- xor16(xor16(q[, 5:8], b), rep(k, each = m))
    c_ <- xor16(xor16(p[, 5:8], d), rep(l, each = m))
    b <- q[, 1:4, drop = FALSE]
    d <- p[, 1:4, drop = FALSE]
    k <- added64(k, c(0x7c15, 0x7f4a, 0x79b9, 0x9e37))
    l <- added64(l, c(0xa73b, 0x84ca, 0xae85, 0xbb67))
  }
  all <- array(c(a, b, c_, d), c(m, 4, 4))  # block, limb, word
  matrix(aperm(all, c(3, 1, 2)), ncol = 4)[seq_len(n), , drop = FALSE]
}

uniforms <- function(seed, stream, n, row = 0) {
  w <- coin_words(seed, stream, n, row)
  (w[, 4] * 2^37 + w[, 3] * 2^21 + w[, 2] * 32 + floor(w[, 1] / 2048)) * POWER(-53)
}

# --- elementary functions ------------------------------------------------------------------------
POWERS <- c(rev(1 / cumprod(rep(2, 1022))), 1, cumprod(rep(2, 1023)))
POWER <- function(k) POWERS[k + 1023]  # a power function promises nothing
LN2_HI <- 0x1.62e42feep-1  # decimal constants of R need not be rounded correctly
LN2_LO <- 0x1.a39ef35793c76p-33
INVERSE_LN2 <- 0x1.71547652b82fep+0
ROOT_HALF <- 0x1.6a09e667f3bcdp-1

exact_exp <- function(x) {
  k <- floor(x * INVERSE_LN2 + 0.5)
  r <- (x - k * LN2_HI) - k * LN2_LO
  t <- rep(1 / 40320, length(x))
  for (f in c(5040, 720, 120, 24, 6, 2, 1, 1)) t <- t * r + 1 / f
  t * POWER(k)
}

sigmoid <- function(s) {
  e <- exact_exp(-pmin(abs(s), 30))
  ifelse(s >= 0, 1, e) / (1 + e)
}

exact_log <- function(x) {
  e <- floor(log2(x)) + 1
  m <- x * POWER(-e)
  e <- e + (m >= 1) - (m < 0.5)
  m <- x * POWER(-e)
  low <- m < ROOT_HALF
  m[low] <- 2 * m[low]
  e[low] <- e[low] - 1
  s <- (m - 1) / (m + 1)
  q <- s * s
  a <- 0
  for (i in 8:1) a <- (a + 1 / (2 * i + 1)) * q
  e * LN2_HI + (2 * s + (2 * s * a + e * LN2_LO))
}

on_grid <- function(x, bits) floor(x * POWER(bits) + 0.5)

# --- algebra in a fixed order --------------------------------------------------------------------
in_order <- function(values) {
  sum <- 0
  for (value in values) sum <- sum + value
  sum
}

cholesky <- function(matrix, floor) {
  n <- nrow(matrix)
  for (j in seq_len(n)) {
    root <- sqrt(max(matrix[j, j], floor))
    matrix[j, j] <- root
    rest <- seq_len(n - j) + j
    below <- matrix[rest, j] / root
    matrix[rest, j] <- below
    matrix[rest, rest] <- matrix[rest, rest] - below * rep(below, each = n - j)
    matrix[j, rest] <- 0
  }
  matrix
}

# (L L')^-1 x, and (L')^-1 x alone.
solved <- function(lower, x) {
  for (j in seq_along(x)) {
    x[j] <- x[j] / lower[j, j]
    rest <- seq_len(length(x) - j) + j
    x[rest] <- x[rest] - lower[rest, j] * x[j]
  }
  backwards(lower, x)
}

backwards <- function(lower, x) {
  for (j in rev(seq_along(x))) {
    x[j] <- x[j] / lower[j, j]
    rest <- seq_len(j - 1)
    x[rest] <- x[rest] - lower[j, rest] * x[j]
  }
  x
}

# --- losses --------------------------------------------------------------------------------------
n_scores <- function(loss) if (loss$kind == "multinomial") loss$n_classes - 1 else 1
loss_bits <- function(loss) switch(loss$kind, gaussian = 16, poisson = 22 - loss$cap_bits, 22)
means_of <- function(loss, scores) {
  switch(loss$kind, bernoulli = matrix(sigmoid(scores[, 1])),
    gaussian = matrix(pmin(pmax(scores[, 1], -48), 48)),
    poisson = matrix(exact_exp(pmin(pmax(scores[, 1], -30), loss$cap_bits * LN2_HI))),
    multinomial = {
      top <- rep(0, nrow(scores))
      for (k in seq_len(ncol(scores))) top <- pmax(top, scores[, k])
      below <- exact_exp(pmax(-top, -60))
      for (k in seq_len(ncol(scores))) {
        scores[, k] <- exact_exp(pmax(scores[, k] - top, -60))
        below <- below + scores[, k]
      }
      scores / below
    })
}

residual <- function(loss, k, mean, targets) {
  mean - if (loss$kind == "multinomial") as.double(targets == k) else targets
}

curvature <- function(loss, k, l, mean, other) {
  switch(loss$kind, gaussian = rep(1, length(mean)), poisson = mean, mean * ((k == l) - other))
}

# Shares of the classes by weight, or the mean target.
shares_of <- function(rows, loss) {
  mass <- if (is.null(rows$weights)) rep(65536, rows$n) else on_grid(rows$weights, 16)
  if (!any(mass > 0)) refuse("rows must have some weight, got none. Pass more rows.")
  if (loss$kind %in% c("gaussian", "poisson")) {
    share <- sum(floor(rows$targets * mass + 0.5)) / sum(mass)
    if (loss$kind == "poisson" && !(share > 0))
      refuse("counts must not all be zero. Get rows with some events.")
    return(share)
  }
  shares <- vapply(0:n_scores(loss), function(k) sum(mass[rows$targets == k]), 0) / sum(mass)
  if (!all(shares > 0))
    refuse("rows must have all classes, but some class has no row. Get rows of each class.")
  shares
}

start_of <- function(loss, shares) {
  switch(loss$kind, gaussian = shares, poisson = exact_log(shares),
         exact_log(shares[-1]) - exact_log(shares[1]))
}

# --- exact sums over rows ------------------------------------------------------------------------
ALL <- 2^32
BLOCK <- 65536  # rows whose gradient stays below 2^53
COARSE_BLOCK <- 2048  # rows whose information does

# Whole numbers beyond 2^53 are pairs, hi * 2^30 + lo; their sum in float64 is rounded once.
pairs_added <- function(pairs, values) {
  high <- floor(values / 2^30)
  list(hi = pairs$hi + high, lo = pairs$lo + (values - high * 2^30))
}
reals <- function(pairs) pairs$hi * 2^30 + pairs$lo
product32 <- function(a, b) {  # modulo 2^32
  low <- a %% 65536
  (low * b + ((a - low) / 65536 * b) %% 65536 * 65536) %% ALL
}
xor32 <- function(a, b) bitwXor(a %/% 65536, b %/% 65536) * 65536 + bitwXor(a %% 65536, b %% 65536)

# Well-mixed numbers of the content of rows, by which rows are sampled.
marks <- function(X) {
  steps <- floor(product32(seq_len(ncol(X)), 2654435769) / 128)
  steps <- steps + (steps %% 2 == 0)
  whole <- drop(X %*% steps)
  high <- floor(whole / ALL)
  x <- xor32(whole - high * ALL, product32(high %% ALL, 0x9E3779B1))
  x <- product32(xor32(x, x %/% 65536), 0x85EBCA6B)
  x <- product32(xor32(x, x %/% 8192), 0xC2B2AE35)
  xor32(x, x %/% 65536)
}

# Scores of rows, a column for each.
scores_of <- function(rows, theta) {
  scores <- tcrossprod(rows$X, theta) * POWER(-38)
  if (is.null(rows$offset)) scores else scores + rows$offset
}

# Gradient and information at theta, a row for each score. X has the constant, 4096, first. Without
# `whole` the information has a first row and a diagonal for each score.
sums_at <- function(rows, loss, theta, share, whole = TRUE) {
  if (!all(rowSums(abs(theta)) * 16384 < 2^53))
    refuse("coefficients must keep scores below 2^15, got larger ones. Use a larger ridge.")
  p <- ncol(theta)
  bits <- loss_bits(loss)
  gradient <- list(hi = matrix(0, p, nrow(theta)), lo = matrix(0, p, nrow(theta)))
  S <- seq_len(nrow(theta))
  pair <- if (whole) subset(expand.grid(l = S, k = S), k <= l) else data.frame(l = S, k = S)
  zeros <- matrix(0, if (whole) p else 2, p)
  information <- if (share > 0) rep(list(list(hi = zeros, lo = zeros)), nrow(pair))
  weight <- sampled <- 0
  for (start in seq(1, rows$n, by = BLOCK)) {
    part <- start:min(start + BLOCK - 1, rows$n)
    X <- if (length(part) == rows$n) rows$X else rows$X[part, , drop = FALSE]
    means <- means_of(loss, scores_of(list(X = X, offset = rows$offset[part]), theta))
    weights <- if (is.null(rows$weights)) rep(1, length(part)) else rows$weights[part]
    units <- vapply(seq_len(nrow(theta)), function(k)
      on_grid(residual(loss, k, means[, k], rows$targets[part]) * weights, bits), weights)
    gradient <- pairs_added(gradient, crossprod(X, matrix(units, length(part))))
    weight <- weight + sum(weights * 65536)
    chosen <- if (share > 0) which(rows$marks[part] < share)
    sampled <- sampled + sum(weights[chosen] * 65536)
    for (first in seq(1, by = COARSE_BLOCK, length.out = ceiling(length(chosen) / COARSE_BLOCK))) {
      some <- chosen[first:min(first + COARSE_BLOCK - 1, length(chosen))]
      coarse <- floor(X[some, , drop = FALSE] * (1 / 16) + 0.5)
      for (i in seq_len(nrow(pair))) {
        k <- pair$k[i]
        l <- pair$l[i]
        values <- on_grid(curvature(loss, k, l, means[some, k], means[some, l]) * weights[some], bits)
        found <- if (whole) crossprod(coarse * values, coarse)
                 else rbind(crossprod(values, coarse) * 256, crossprod(values, coarse^2))
        information[[i]] <- pairs_added(information[[i]], found)
      }
    }
  }
  list(weight = weight, sampled = sampled, gradient = gradient, information = information, pair = pair)
}

# --- Newton's method -----------------------------------------------------------------------------
share_of <- function(n_rows, q) {
  wanted <- max(128 * q, 8192)
  if (2 * wanted > n_rows) return(ALL)
  share <- floor(wanted * ALL / n_rows)
  share - (share * n_rows > wanted * ALL)
}

mean_gradient <- function(sums, loss, ridge, theta) {
  out <- t(reals(sums$gradient)) * POWER(4 - loss_bits(loss)) / sums$weight
  values <- theta * POWER(-26)
  if (nrow(theta) > 1) {
    centre <- rep(0, ncol(theta))
    for (k in seq_len(nrow(theta))) centre <- centre + values[k, ]
    values <- values - rep(centre / (nrow(theta) + 1), each = nrow(theta))
  }
  values[, 1] <- 0
  out + values * ridge
}

mean_information <- function(sums, loss, ridge, S, p) {
  whole <- matrix(0, S * p, S * p)
  for (i in seq_along(sums$information)) {
    k <- sums$pair$k[i]
    l <- sums$pair$l[i]
    part <- reals(sums$information[[i]]) * POWER(-loss_bits(loss)) / max(sums$sampled, 1)
    on_scores <- if (S > 1) (k == l) - 1 / (S + 1) else 1
    places <- seq_len(p - 1) + 1
    part[cbind(places, places)] <- part[cbind(places, places)] + on_scores * ridge
    whole[(k - 1) * p + seq_len(p), (l - 1) * p + seq_len(p)] <- part
    whole[(l - 1) * p + seq_len(p), (k - 1) * p + seq_len(p)] <- t(part)
  }
  whole
}

# Inverse information times the last gradient, by the last steps (L-BFGS in two loops).
remembered <- function(points, inverse) {
  steps <- list()
  for (i in seq_along(points)[-1]) {
    step <- (points[[i]]$theta - points[[i - 1]]$theta) * POWER(-26)
    change <- points[[i]]$gradient - points[[i - 1]]$gradient
    product <- in_order(step * change)
    if (product > 0)
      steps[[length(steps) + 1]] <- list(step = step, change = change, product = product)
  }
  right <- points[[length(points)]]$gradient
  for (i in rev(seq_along(steps))) {
    steps[[i]]$weight <- in_order(steps[[i]]$step * right) / steps[[i]]$product
    right <- right - steps[[i]]$weight * steps[[i]]$change
  }
  found <- inverse(right)
  for (one in steps)
    found <- found + (one$weight - in_order(one$change * found) / one$product) * one$step
  found
}

# Inverse information of uncorrelated columns, once the constant is taken out, times a vector.
solved_alone <- function(sums, right, loss, ridge, S, p) {
  penalty <- if (S == 1) ridge else ridge * (1 - 1 / (S + 1))
  found <- numeric(S * p)
  for (k in seq_len(S)) {
    part <- reals(sums$information[[k]]) * POWER(-loss_bits(loss)) / max(sums$sampled, 1)
    head <- max(part[1, 1], POWER(-24))
    own <- part[2, -1] + penalty
    slope <- part[1, -1] / head
    alone <- pmax(own - part[1, -1] * slope, own / 64, POWER(-24))
    at <- (k - 1) * p + seq_len(p)
    found[at[-1]] <- (right[at[-1]] - slope * right[at[1]]) / alone
    found[at[1]] <- right[at[1]] / head - in_order(slope * found[at[-1]])
  }
  found
}

# Coefficients at which the mean loss with its ridge is smallest: whole numbers of units of 2^-26, a
# row for each score. `on_pass` is told of every pass over the rows.
fit <- function(rows, loss, ridge, on_pass = function(theta, share) NULL) {
  S <- n_scores(loss)
  p <- ncol(rows$X)
  whole <- S * p <= 500
  rows$marks <- marks(rows$X)
  passed <- function(there, some) {
    on_pass(there, some)
    sums_at(rows, loss, there, some, whole)
  }
  theta <- matrix(0, S, p)
  theta[, 1] <- on_grid(start_of(loss, shares_of(rows, loss)), 26)
  share <- if (whole) share_of(rows$n, S * p) else ALL
  sums <- passed(theta, share)
  if (share < ALL && abs(sums$sampled / sums$weight - share / ALL) > share / ALL / 8) {
    share <- ALL  # few different rows: no share stands for all
    sums <- passed(theta, share)
  }
  near <- min(2^16, max(1, floor(2^20 / sqrt(rows$n))))
  last <- Inf
  before <- 0
  for (step in 1:5000) {
    gradient <- as.vector(t(mean_gradient(sums, loss, ridge, theta)))  # score by score
    if (all(abs(gradient) <= POWER(17 - loss_bits(loss)) * rows$n / sums$weight)) return(theta)
    if (!is.null(sums$information)) {
      points <- list()  # since the information was made
      steering <- if (!whole) sums
        else cholesky(mean_information(sums, loss, ridge, S, p), POWER(-24))
    }
    points <- utils::tail(c(points, list(list(theta = as.vector(t(theta)), gradient = gradient))), 11)
    move <- -remembered(points, function(right)
      if (whole) solved(steering, right) else solved_alone(steering, right, loss, ridge, S, p))
    size <- max(abs(move))
    units <- on_grid(move, 26)
    largest <- max(abs(units))
    # steps after this one that shrink as the last two did add up to so much
    if (8 * largest <= near || largest * largest <= near * (before - largest))
      return(theta + matrix(units, S, byrow = TRUE))
    steers_badly <- size > last / 4 && share < ALL
    if (steers_badly) share <- min(4 * share, ALL)
    last <- size
    slope <- in_order(gradient * move)
    length <- 1
    repeat {
      there <- theta + matrix(on_grid(length * move, 26), S, byrow = TRUE)
      if (any(abs(there) >= 2^30)) {
        if (length < POWER(-20))
          refuse("coefficients of standardised columns must stay below 16, but these rows drive ",
                 "them further: some column nearly separates the classes. Use a larger ridge.")
        length <- length / 2
        next
      }
      sums <- passed(there, if (whole && (steers_badly || length * size > 1 / 8)) share else 0)
      ahead <- as.vector(t(mean_gradient(sums, loss, ridge, there)))
      if (in_order(ahead * move) <= -slope / 4) break
      length <- length / 2
      if (length < POWER(-20))
        refuse("the fit must converge, but its steps do not shrink. Use a larger ridge.")
    }
    before <- max(abs(there - theta))
    theta <- there
  }
  refuse("the fit must converge, but 5000 steps were not enough. Use a larger ridge.")
}

# --- coordinates, cells, codes -------------------------------------------------------------------
# A lower triangle from its rows, which stop at the diagonal.
triangle <- function(rows) {
  out <- matrix(0, length(rows), length(rows))
  for (i in seq_along(rows)) out[i, seq_along(rows[[i]])] <- as.double(unlist(rows[[i]]))
  out
}

columns_of <- function(coordinates) {
  if (is.null(coordinates$scales)) triangle(coordinates$columns)
  else diag(as.double(unlist(coordinates$scales)), length(coordinates$scales))
}

# Whole numbers as digits of base 2^12, the lowest first; the last one has the sign.
digits_of <- function(x, n) {
  out <- list()
  for (i in seq_len(n - 1)) {
    high <- floor(x / 4096)
    out[[i]] <- x - high * 4096
    x <- high
  }
  c(out, list(x))
}

# The exact product of matrices of such numbers, again with digits.
digits_product <- function(a, b) {
  out <- rep(list(0), length(a) + length(b))
  for (i in seq_along(a)) for (j in seq_along(b))
    out[[i + j - 1]] <- out[[i + j - 1]] + a[[i]] %*% b[[j]]
  for (i in seq_len(length(out) - 1)) {
    high <- floor(out[[i]] / 4096)
    out[[i]] <- out[[i]] - high * 4096
    out[[i + 1]] <- out[[i + 1]] + high
  }
  out
}

# z = C' theta L: exact, then rounded once, by the last addition; score by score.
coordinates_of <- function(coordinates, theta) {
  half <- digits_product(digits_of(theta, 3), digits_of(columns_of(coordinates), 2))
  d <- digits_product(digits_of(t(triangle(coordinates$scores)), 2), half)
  low <- d[[1]] + d[[2]] * 2^12 + d[[3]] * 2^24 + d[[4]] * 2^36
  high <- d[[5]] + d[[6]] * 2^12 + d[[7]] * 2^24
  as.vector(t((high * 2^48 + low) * POWER(-54)))
}

# Coefficients that numbers stand for, a row for each score.
theta_of <- function(coordinates, z) {
  scores <- triangle(coordinates$scores) * POWER(-14)
  columns <- columns_of(coordinates) * POWER(-14)
  half <- matrix(z, nrow(scores), byrow = TRUE)
  half <- matrix(apply(half, 2, function(x) backwards(scores, x)), nrow(scores))
  if (!is.null(coordinates$scales)) return(half / rep(diag(columns), each = nrow(half)))
  t(matrix(apply(half, 1, function(x) backwards(columns, x)), ncol(half)))
}

sketch_of <- function(design) {
  if (is.null(design$sketch)) 0 else as.double(unlist(design$sketch)) / POWER(design$bits)
}
widths_of <- function(design) decimals(unlist(design$widths))
shifts_of <- function(design) uniforms(design$seed, "cells", length(design$widths))
offsets_of <- function(design, z) (z / widths_of(design) + shifts_of(design)) - sketch_of(design)
decoded <- function(design, codes) {
  parts <- POWER(design$bits)
  ((codes * parts + sketch_of(design) * parts) / parts - shifts_of(design)) * widths_of(design)
}

# --- one meaning of a cell -----------------------------------------------------------------------
MISSING_WORDS <- c("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", ".", "?")
TRUE_WORDS <- c("true", "True", "TRUE")
FALSE_WORDS <- c("false", "False", "FALSE")

trimmed <- function(texts) gsub("^[ \t\n\r\v\f]+|[ \t\n\r\v\f]+$", "", texts, perl = TRUE)
odd_cells <- function(name, what) {
  refuse("column ", quoted(name), " must hold numbers or text, got ", what, ". Turn them into ",
         "numbers or text, or leave such cells empty.")
}

# Texts with other signs for decimals and thousands as plain numbers.
rewritten <- function(texts, name, signs) {
  point <- paste0("[", signs$decimal, "]")
  group <- paste0("[", signs$thousands, "]")
  whole <- "[0-9]+"
  if (nzchar(signs$thousands)) whole <- paste0("([0-9]+|[0-9]{1,3}(", group, "[0-9]{3})+)")
  form <- paste0("^[+-]?(", whole, "(", point, "[0-9]*)?|", point, "[0-9]+)([eE][+-]?[0-9]+)?$")
  meant <- grepl(form, texts, perl = TRUE)
  plain <- !meant & grepl(NUMBER, texts, perl = TRUE)
  if (signs$decimal == "," && any(grepl("[.].", texts[plain])))
    odd_cells(name, "numbers with a point where the decimal sign is a comma")
  if (nzchar(signs$thousands)) texts[meant] <- gsub(group, "", texts[meant])
  texts[meant] <- sub(point, ".", texts[meant])
  texts
}

# A column as numbers, or as trimmed texts; NA is missing.
cells_of <- function(column, name, signs = list(decimal = ".", thousands = "")) {
  if (is.factor(column)) column <- as.character(column)
  if (inherits(column, c("Date", "POSIXt", "difftime", "integer64")) || !is.null(dim(column)) ||
      !(is.character(column) || is.numeric(column) || is.logical(column)))
    odd_cells(name, paste("values of the class", class(column)[1]))
  if (is.logical(column)) return(c("false", "true")[column + 1L])
  if (is.numeric(column)) {
    x <- as.double(column)
    if (any(is.infinite(x))) odd_cells(name, "infinite numbers")
    x[is.na(x)] <- NA
    return(x)
  }
  distinct <- unique(column)
  if (!all(validUTF8(enc2utf8(distinct)))) odd_cells(name, "texts that are no UTF-8")
  texts <- trimmed(enc2utf8(distinct))
  if (signs$decimal != "." || nzchar(signs$thousands)) texts <- rewritten(texts, name, signs)
  if (any(nchar(texts) > 4096, na.rm = TRUE)) odd_cells(name, "texts of more than 4,096 characters")
  if (any(texts %in% c("inf", "-inf", "Infinity", "-Infinity"))) odd_cells(name, "infinite numbers")
  texts[texts %in% MISSING_WORDS] <- NA
  texts[match(column, distinct)]
}

# Numbers of a column: NA where a cell is missing, NaN where its text is no number.
numbers_of <- function(cells, name) {
  if (is.double(cells)) return(cells)
  distinct <- unique(cells)
  x <- ifelse(is.na(distinct), NA_real_, NaN)
  x[distinct %in% TRUE_WORDS] <- 1
  x[distinct %in% FALSE_WORDS] <- 0
  is_number <- grepl(NUMBER, distinct, perl = TRUE)
  x[is_number] <- decimals(distinct[is_number])
  if (any(is.infinite(x))) odd_cells(name, "infinite numbers")
  x[match(cells, distinct)]
}

# Levels of a column: "1.0" and "01" are "1", "TRUE" is "true"; NA where a cell is missing.
levels_of <- function(cells, name) {
  texts <- distinct <- unique(cells)
  is_number <- if (is.double(cells)) !is.na(distinct) else grepl(NUMBER, distinct, perl = TRUE)
  texts[is_number] <- number_texts(numbers_of(distinct[is_number], name))
  texts[distinct %in% TRUE_WORDS] <- "true"
  texts[distinct %in% FALSE_WORDS] <- "false"
  as.character(texts)[match(cells, distinct)]
}

# --- tables --------------------------------------------------------------------------------------
SAVE_AS <- "Save it as \"CSV UTF-8\" (in Excel: Save As, CSV UTF-8)."

read_bytes <- function(path) {
  if (!file.exists(path)) refuse(path, " cannot be read: no such file. Check the path.")
  bytes <- readBin(path, "raw", file.size(path))
  if (grepl("[.]gz$", path, ignore.case = TRUE))
    bytes <- tryCatch(memDecompress(bytes, "gzip"), error = function(e) refuse(
      path, " cannot be read: ", conditionMessage(e), ". Check that the file is complete."))
  begins <- function(...) identical(head(bytes, ...length()), as.raw(c(...)))
  if (begins(0x1f, 0x8b)) refuse(path, " is compressed. Rename it, so that it ends in .gz.")
  if (begins(0x50, 0x4b, 3, 4) || begins(0xd0, 0xcf, 0x11, 0xe0))
    refuse(path, " is a workbook. ", SAVE_AS)
  if (begins(0xff, 0xfe) || begins(0xfe, 0xff) || any(bytes == as.raw(0)))
    refuse(path, " must be UTF-8 text, got something else. ", SAVE_AS)
  if (begins(0xef, 0xbb, 0xbf)) bytes <- bytes[-(1:3)]
  if (!validUTF8(rawToChar(bytes))) refuse(path, " must be UTF-8 text, got other bytes. ", SAVE_AS)
  bytes
}

# The sign that the first line has most of, outside of quotes.
delimiter_of <- function(bytes) {
  head <- sub("^[\r\n]+", "", rawToChar(head(bytes, 2^20)), useBytes = TRUE)
  line <- sub("[\r\n].*", "", gsub("\"[^\"]*\"", "", head, useBytes = TRUE), useBytes = TRUE)
  signs <- c(",", ";", "\t", "|")
  signs[which.max(vapply(signs, function(sign) sum(charToRaw(line) == charToRaw(sign)), 0L))]
}

# Records of a CSV file as texts: lines, joined where a line ends within quotes.
records_of <- function(path, bytes, d) {
  is_return <- bytes == as.raw(13)
  ends <- ifelse(is_return[is_return | bytes == as.raw(10)], "\r", "\n")
  bytes[is_return] <- as.raw(10)
  source <- rawConnection(bytes)
  on.exit(close(source))
  lines <- readLines(source, warn = FALSE, encoding = "UTF-8")
  has_quote <- grepl("\"", lines, fixed = TRUE, useBytes = TRUE)
  cell <- sprintf("(?:\"(?:[^\"]++|\"\")*+\"[^%s]*+|[^\"%s][^%s]*+|)", d, d, d)
  whole <- sprintf("^%s(?:%s%s)*+\\z", cell, d, cell)
  is_whole <- function(texts) grepl(whole, texts, perl = TRUE)
  quotes <- which(has_quote)
  closers <- quotes[is_whole(paste0("\"", lines[quotes]))]  # end a record that is within quotes
  done <- 0
  for (i in quotes[!is_whole(lines[quotes])]) {
    if (i <= done) next
    done <- closers[findInterval(i, closers) + 1]
    if (is.na(done))
      refuse(path, " must close every quote, but it ends inside of one. Check that the file is ",
             "complete.")
    more <- seq_len(done - i) + i
    lines[i] <- paste0(c(lines[i], paste0(ends[more - 1], lines[more])), collapse = "")
    lines[more] <- ""
    if (nchar(lines[i], "bytes") > 2^22)
      refuse(path, " cannot be read: a row is longer than 4 MB. Check the quotes.")
  }
  lines[nzchar(lines)]
}

# Cells of records, a list of texts for each.
split_records <- function(records, delimiter, d) {
  has_quote <- grepl("\"", records, fixed = TRUE, useBytes = TRUE)
  out <- vector("list", length(records))
  out[!has_quote] <- strsplit(paste0(records[!has_quote], delimiter), delimiter, fixed = TRUE)
  if (any(has_quote)) {
    pattern <- sprintf("%s(?:\"(?:[^\"]++|\"\")*+\"?[^%s]*+|[^%s]*+)", d, d, d)
    given <- paste0(delimiter, records[has_quote])
    out[has_quote] <- lapply(regmatches(given, gregexpr(pattern, given, perl = TRUE)), unquoted)
  }
  out
}

unquoted <- function(cells) {
  cells <- substring(cells, 2)
  inside <- attr(regexpr("^\"(?:[^\"]++|\"\")*+", cells, perl = TRUE), "match.length")
  q <- inside > 0
  cells[q] <- paste0(gsub("\"\"", "\"", substr(cells[q], 2, inside[q]), fixed = TRUE),
                     substring(cells[q], inside[q] + 2))
  cells
}

checked_names <- function(place, names, wanted) {
  names <- trimmed(enc2utf8(names))
  if (any(!nzchar(names) | is.na(names)))
    refuse(place, " must name every column, but column ", which(!nzchar(names) | is.na(names))[1],
           " has no name. Name it, or leave it out if it numbers the rows.")
  if (anyDuplicated(names))
    refuse(place, " must have different names of columns, got ", quoted(names[duplicated(names)]),
           " more than once. Rename them.")
  if (length(absent <- setdiff(wanted, names)))
    refuse(place, " must have ", quoted(absent), "; it has ", quoted(names), ". Rename the columns, ",
           "or use the study of this table.")
  names
}

# Some columns of a data.frame or CSV file, as numbers or as levels: list(n, numbers, levels).
read_table <- function(data, numbers, levels, delimiter = NULL, decimal = ".", thousands = "") {
  signs <- list(decimal = decimal, thousands = thousands)
  if (!decimal %in% c(".", ",") || !thousands %in% c("", ".", ",", " ", "'") || decimal == thousands)
    refuse("decimal must be a point or a comma, and thousands a different sign, got '", decimal,
           "' and '", thousands, "'.")
  wanted <- unique(c(numbers, levels))
  taken <- function(column, n, ...) {
    cells <- sapply(wanted, function(name) cells_of(column(name), name, ...), simplify = FALSE)
    list(n = n, numbers = Map(numbers_of, cells[numbers], numbers),
         levels = Map(levels_of, cells[levels], levels))
  }
  if (is.data.frame(data)) {
    places <- match(wanted, checked_names("the table", names(data), wanted))
    names(places) <- wanted
    if (!nrow(data)) refuse("the table must have rows, got none. Check it.")
    return(taken(function(name) data[[places[[name]]]], nrow(data)))
  }
  if (!is.character(data) || length(data) != 1)
    refuse("data must be a data.frame or the path of a CSV file, got ", class(data)[1], ".")
  bytes <- read_bytes(data)
  delimiter <- if (is.null(delimiter)) delimiter_of(bytes) else delimiter
  d <- sprintf("\\x%s", charToRaw(delimiter))
  records <- records_of(data, bytes, d)
  if (!length(records)) refuse(data, " must begin with a line of column names, got none. Check it.")
  names <- split_records(records[1], delimiter, d)[[1]]
  places <- match(wanted, checked_names(data, names, wanted))
  names(places) <- wanted
  if (length(records) < 2) refuse(data, " must have rows, got none. Check it.")
  parts <- lapply(seq(2, length(records), by = 8192), function(start) {
    some <- split_records(records[start:min(start + 8191, length(records))], delimiter, d)
    if (length(odd <- which(lengths(some) != length(names))))
      refuse(data, ", row ", start + odd[1] - 1, ", must have ", length(names), " cells in every row, ",
             "got ", length(some[[odd[1]]]), ". Put texts that hold the delimiter in quotes; with a ",
             "decimal comma separate cells by semicolons.")
    texts <- matrix(unlist(some), length(names))
    taken(function(name) texts[places[[name]], ], length(some), signs)
  })
  joined <- function(what) do.call(Map, c(c, lapply(parts, `[[`, what)))
  list(n = length(records) - 1, numbers = joined("numbers"), levels = joined("levels"))
}

# --- encoding ------------------------------------------------------------------------------------
is_number_column <- function(column) column$kind == "number"
names_of <- function(columns) vapply(columns, function(column) column$name, "")

# Terms of all rows, and how many cells of each column are missing, or odd (unknown, unreadable).
# Predictions use the terms before they are rounded.
encode <- function(encoding, table, is_rounded = TRUE) {
  one <- if (is_rounded) 4096 else 1
  put <- if (is_rounded) function(x) floor(x * 4096 + 0.5) else identity
  parts <- lapply(encoding$columns, function(column) {
    if (!is_number_column(column)) return(level_terms(column, table$levels[[column$name]], one))
    number_terms(column, table$numbers[[column$name]], put, one)
  })
  missing <- vapply(parts, function(part) part$missing, 0)
  odd <- vapply(parts, function(part) part$odd, 0)
  numeric <- vapply(encoding$columns, is_number_column, NA)
  absent <- missing + ifelse(numeric, odd, 0)
  if (any(absent > 0) && identical(encoding$missing, "refuse")) {
    first <- which(absent > 0)[1]
    refuse("column ", quoted(encoding$columns[[first]]$name), " must have a value in every row, got ",
           counted(absent[first]), " missing ones. Fill or leave out such rows.")
  }
  terms <- unlist(lapply(parts, function(part) part$terms), recursive = FALSE)
  is_first <- unlist(lapply(parts, function(part) part$is_first))
  for (product in encoding$products) {
    a <- product$first + 1
    b <- product$second + 1
    shrinkage <- 2^(encoding$products_halved + (if (is_first[a] && is_first[b]) 2 else 0))
    whole <- terms[[a]] * terms[[b]] / shrinkage
    new <- if (is_rounded) floor(whole / 4096 + 0.5) else whole
    terms <- c(terms, list(new))
  }
  list(X = matrix(unlist(terms), table$n), missing = missing, odd = odd)
}

number_terms <- function(column, values, put, one) {
  centre <- decimals(column$centre)
  spread <- decimals(column$spread)
  absent <- is.na(values)
  n_odd <- sum(is.nan(values))
  values[absent] <- centre
  nodes <- c(centre - 4 * spread, decimals(unlist(column$knots)), centre + 4 * spread)
  x <- pmin(pmax(values, nodes[1]), nodes[length(nodes)])
  terms <- list(put((x - centre) / spread))
  for (j in seq_along(column$knots) + 1) {
    rises <- (x - nodes[j - 1]) / (nodes[j] - nodes[j - 1])
    falls <- (nodes[j + 1] - x) / (nodes[j + 1] - nodes[j])
    terms <- c(terms, list(put(pmax(pmin(rises, falls), 0))))
  }
  if (isTRUE(column$indicator)) terms <- c(terms, list(absent * one))
  list(terms = terms, is_first = seq_along(terms) == 1, missing = sum(absent) - n_odd, odd = n_odd)
}

level_terms <- function(column, levels, one) {
  named <- as.character(unlist(column$levels))
  absent <- is.na(levels)
  is_unknown <- !absent & !levels %in% c(named, column$reference, "(other)", "(missing)")
  levels[absent] <- "(missing)"
  levels[!levels %in% c(named, column$reference)] <- "(other)"
  list(terms = lapply(named, function(level) (levels == level) * one),
       is_first = rep(FALSE, length(named)), missing = sum(absent), odd = sum(is_unknown))
}

# Whether missing cells of a column have a coefficient of their own.
has_missing_term <- function(column)
  if (is_number_column(column)) isTRUE(column$indicator) else "(missing)" %in% unlist(column$levels)

# Unknown cells that a column without folded levels may have: of many levels a lab has others.
most_unknown <- function(column)
  if (sum(!startsWith(as.character(unlist(column$levels)), "(")) < 3) 0.05 else 1 / 3

# Stop at a table that is coded differently from the study.
refuse_unknown <- function(encoding, encoded, n) {
  if (n < 20) return(invisible())
  usual <- vapply(encoding$columns, function(column)
    if (is.null(column$folded)) 0 else decimals(column$folded), 0)
  known <- n - encoded$missing
  most <- ifelse(usual > 0, usual + (1 - usual) / 2, vapply(encoding$columns, most_unknown, 0))
  odd <- encoded$odd > most * known + 3 * sqrt(usual * (1 - usual) * known)
  gaps <- !odd & !vapply(encoding$columns, has_missing_term, TRUE) & encoded$missing > 0.2 * n
  bad <- which(odd | gaps)
  if (!length(bad)) return(invisible())
  what <- vapply(head(bad, 5), function(i) if (gaps[i]) sprintf(paste0(
    "in '%s' %s of %s cells (%.1f%%) are missing, where the study has no coefficient for gaps: ",
    "fill them in, or leave such rows out"), encoding$columns[[i]]$name,
    counted(encoded$missing[i]), counted(n), 100 * encoded$missing[i] / n) else sprintf(
    "in '%s' %s of %s cells (%.1f%%) %s", encoding$columns[[i]]$name, counted(encoded$odd[i]),
    counted(known[i]), 100 * encoded$odd[i] / known[i],
    if (is_number_column(encoding$columns[[i]])) "are no numbers (decimal commas?)"
    else "have levels that the study does not know"), "")
  refuse("the table is coded differently from the study: ", paste(what, collapse = "; "),
         ". Recode these columns as the study has them, or give decimal= and thousands=.")
}

# --- labels, numbers, weights --------------------------------------------------------------------
label_texts <- function(classes) vapply(classes, function(label)
  if (is.character(label)) label else canonical(label), "")

class_numbers <- function(levels, classes) {
  n <- length(levels)
  if (anyNA(levels))
    refuse("the target must hold a label in every row, got ", counted(sum(is.na(levels))),
           " missing labels (NaN) in ", counted(n), " rows. Fill in or leave out such rows.")
  texts <- label_texts(classes)
  found <- match(levels, texts)
  same <- c("0" = "false", "1" = "true", "false" = "0", "true" = "1")
  if (setequal(texts, c("0", "1")) || setequal(texts, c("false", "true")))
    found <- ifelse(is.na(found), match(levels, same[texts]), found)
  if (anyNA(found)) {
    odd <- sort(table(levels[is.na(found)]), decreasing = TRUE)
    shown <- head(names(odd)[odd >= 10], 4)
    refuse("the target must hold the labels of the study, ", paste(texts, collapse = ", "),
           ", got others in ", counted(sum(odd)), " of ", counted(n), " rows",
           if (length(shown)) paste0(": ", quoted(shown)), ". Recode them as the study has them.")
  }
  found - 1
}

checked_numbers <- function(values, place, least = -Inf) {
  n <- counted(length(values))
  if (anyNA(values)) {
    what <- if (any(is.nan(values))) paste(counted(sum(is.nan(values))), "texts")
      else paste(counted(sum(is.na(values))), "missing values (NaN)")
    refuse(place, " must hold a number in every row, got ", what, " in ", n, " rows. Fill in or ",
           "leave out such rows.")
  }
  if (any(values < least))
    refuse(place, " must hold numbers of at least ", least, ", got smaller ones in ",
           counted(sum(values < least)), " of ", n, " rows. Check the column.")
  values
}

targets_of <- function(design, table) {
  loss <- design$loss
  if (!is.null(design$classes)) return(class_numbers(table$levels[[design$target]], design$classes))
  least <- if (loss$kind == "poisson") 0 else -Inf
  y <- checked_numbers(table$numbers[[design$target]], "the target", least)
  if (loss$kind == "poisson") return(pmin(y, POWER(loss$cap_bits)))
  units <- (y - decimals(loss$centre)) / decimals(loss$spread)
  on_grid(pmin(pmax(units, -16), 16), 16) * POWER(-16)
}

# Weights on their grid, scaled by the smallest power of two that exceeds them; NULL if all are 1.
weights_of <- function(design, table, targets) {
  if (is.null(design$weights) && is.null(design$class_weight)) return(NULL)
  mass <- if (is.null(design$weights)) rep(1, table$n)
    else checked_numbers(table$numbers[[design$weights]], "sample_weight", 0)
  if (!is.null(design$class_weight)) mass <- mass * decimals(unlist(design$class_weight))[targets + 1]
  if (!any(mass > 0)) refuse("sample_weight must not be zero in all rows. Pass some that are positive.")
  scale <- min(POWERS[POWERS > max(mass)])
  ifelse(mass > 0, pmax(on_grid(mass / scale, 16), 1), 0) * POWER(-16)
}

directions_of <- function(design)
  do.call(rbind, lapply(design$directions, function(row) as.double(unlist(row))))

# The columns that a design needs, and further ones by name: as numbers, or as levels.
design_table <- function(design, data, numbers, levels, ...) {
  columns <- design$encoding$columns
  is_number <- vapply(columns, is_number_column, NA)
  read_table(data, unique(c(names_of(columns[is_number]), numbers)),
             unique(c(names_of(columns[!is_number]), levels)), ...)
}

# A lab's rows as the fit takes them: X with the constant, targets, weights and offset.
rows_of <- function(design, data, ...) {
  has_classes <- !is.null(design$classes)
  table <- design_table(design, data, c(design$weights, design$offset, if (!has_classes) design$target),
                        if (has_classes) design$target, ...)
  targets <- targets_of(design, table)
  weights <- weights_of(design, table, targets)
  offset <- if (!is.null(design$offset)) checked_numbers(table$numbers[[design$offset]], "offset")
  encoded <- encode(design$encoding, table)
  refuse_unknown(design$encoding, encoded, table$n)
  X <- encoded$X
  if (!is.null(design$directions))
    X <- pmin(pmax(floor(tcrossprod(X, directions_of(design)) * POWER(-12) + 0.5), -16384), 16384)
  kept <- if (is.null(weights)) rep(TRUE, table$n) else weights > 0
  counts <- if (has_classes) tabulate(targets[kept] + 1, length(design$classes))
  list(X = cbind(4096, X)[kept, , drop = FALSE], targets = targets[kept], weights = weights[kept],
       offset = offset[kept], n = sum(kept),
       findings = function(study) findings_of(study, table, counts))
}

# --- files ---------------------------------------------------------------------------------------
# A file of replearn, whose fingerprint must be that of its content.
read_document <- function(path, format) {
  text <- rawToChar(read_bytes(path))
  Encoding(text) <- "UTF-8"
  content <- tryCatch(jsonlite::parse_json(text), error = function(e)
    refuse(path, " must be JSON, got something else. Get the file anew."))
  if (!identical(content$format, format) || !identical(as.double(content$version), 1))
    refuse(path, " must be a file of the format ", format, ", version 1. Check the path.")
  if (!identical(content$design$kind, "glm"))
    refuse(path, " must be of a generalised linear model, got a different one. Use Python for it.")
  if (identical(content$design$loss$kind, "hazard"))
    refuse(path, " is of a survival study, which R does not fit. Use Python: replearn replicate.")
  said <- content$fingerprint
  content[c("fingerprint", "provenance")] <- NULL
  found <- fingerprint_of(content)
  if (!is.null(said) && !identical(said, found))
    refuse(path, ": fingerprint must be ", found, ", got ", said, ": it was altered. Get it anew.")
  n <- n_scores(content$design$loss) * n_columns(content$design)
  for (key in c("widths", if (content$design$bits > 0) "sketch"))
    if (length(content$design[[key]]) != n)
      refuse(path, ": ", key, " must be ", n, " numbers. Get it anew.")
  c(content, list(fingerprint = found))
}

n_columns <- function(design) {
  1 + if (is.null(design$directions)) length(term_names(design$encoding)) else length(design$directions)
}

read_study <- function(path) structure(read_document(path, "replearn/study"), class = "replearn_study")
read_model <- function(path) {
  content <- read_document(path, "replearn/model")
  codes <- as.double(unlist(content$codes))
  if (length(codes) != length(content$design$widths))
    refuse(path, ": codes must be as many as widths. Get it anew.")
  make_model(content$design, codes)
}

model_content <- function(design, codes)
  list(format = "replearn/model", version = 1, design = design, codes = as.list(codes))

make_model <- function(design, codes) {
  theta <- theta_of(design$coordinates, decoded(design, codes))
  if (!is.null(design$directions))
    theta <- cbind(theta[, 1], theta[, -1, drop = FALSE] %*% directions_of(design) * POWER(-12))
  dimnames(theta) <- list(if (nrow(theta) > 1) label_texts(design$classes)[-1],
                          c("(constant)", term_names(design$encoding)))
  structure(list(design = design, codes = codes, theta = theta,
                 coefficients = per_unit(design, theta), fingerprint = fingerprint_of(model_content(design, codes))), class = "replearn_model")
}

# Write a model file: the same bytes as Python, whole or not at all.
save_model <- function(model, path) {
  content <- c(model_content(model$design, model$codes), fingerprint = model$fingerprint)
  scratch <- tempfile(tmpdir = dirname(path))
  writeBin(charToRaw(paste0(canonical(content), "\n")), scratch)
  if (!file.rename(scratch, path)) refuse(path, " cannot be written. Check the path.")
  invisible(path)
}

term_names <- function(encoding) {
  basic <- unlist(lapply(encoding$columns, function(column) {
    if (is_number_column(column)) {
      return(c(column$name, if (length(column$knots)) paste(column$name, "~", unlist(column$knots)),
               if (isTRUE(column$indicator)) paste(column$name, "missing")))
    }
    levels <- as.character(unlist(column$levels))
    if (length(levels)) ifelse(levels == "(missing)", paste(column$name, "missing"),
                               paste(column$name, "=", levels))
  }))
  c(basic, vapply(encoding$products, function(product)
    paste(basic[product$first + 1], "x", basic[product$second + 1]), ""))
}

number_names <- function(design) {
  terms <- c("(constant)", if (is.null(design$directions)) term_names(design$encoding)
             else paste("direction", seq_along(design$directions)))
  if (n_scores(design$loss) == 1) return(terms)
  as.vector(outer(terms, label_texts(design$classes)[-1], paste, sep = ", "))
}

# Coefficients as readers multiply and add them, a row for each of `theta`: per unit of a number,
# uncentred, of a level against its reference, and of a product per unit of both.
per_unit <- function(design, theta) {
  encoding <- design$encoding
  places <- unlist(lapply(encoding$columns, function(column) {
    if (!is_number_column(column)) return(rep(c(0, 1), length(unlist(column$levels))))
    others <- length(column$knots) + isTRUE(column$indicator)
    c(decimals(column$centre), decimals(column$spread), rep(c(0, 1), others))
  }))
  places <- cbind(c(0, 1), matrix(places, 2))
  is_first <- c(FALSE, unlist(lapply(encoding$columns, function(column)
    if (is_number_column(column)) seq_len(1 + length(column$knots) + isTRUE(column$indicator)) == 1
    else rep(FALSE, length(unlist(column$levels))))))
  for (i in seq_len(ncol(places))) {
    theta[, i] <- theta[, i] / places[2, i]
    if (i > 1) theta[, 1] <- theta[, 1] - theta[, i] * places[1, i]
  }
  for (j in seq_along(encoding$products)) {
    first <- encoding$products[[j]]$first + 2
    second <- encoding$products[[j]]$second + 2
    halved <- encoding$products_halved + (if (is_first[first] && is_first[second]) 2 else 0)
    i <- ncol(places) + j
    theta[, i] <- theta[, i] / (2^halved * places[2, first] * places[2, second])
    # p (x - a)(y - b) = p x y - p b x - p a y + p a b
    theta[, first] <- theta[, first] - theta[, i] * places[1, second]
    theta[, second] <- theta[, second] - theta[, i] * places[1, first]
    theta[, 1] <- theta[, 1] + theta[, i] * places[1, first] * places[1, second]
  }
  if (design$loss$kind == "gaussian") {
    theta <- theta * decimals(design$loss$spread)
    theta[, 1] <- theta[, 1] + decimals(design$loss$centre)
  }
  theta
}

# A vector, or for more than two classes a matrix with a row for each but the first.
coef_model <- function(object, ...) {
  found <- object$coefficients
  if (nrow(found) > 1) found else found[1, ]
}

# --- this lab's own estimates --------------------------------------------------------------------
# Estimates without the ridge and their robust covariance (HC3, or what the model itself predicts if
# that is larger), per unit. For reading, so R may add up as it likes.
own_estimates <- function(design, rows, theta) {
  S <- nrow(theta)
  p <- ncol(theta)
  if (S > 1 || p > 500 || !is.null(design$directions)) return(NULL)
  loss <- design$loss
  X <- rows$X / 4096
  mass <- if (is.null(rows$weights)) rep(1, rows$n) else rows$weights
  left <- diag(c(0, rep(0.01 * sum(mass) / rows$n, p - 1)), p)
  beta <- theta[1, ] * POWER(-26)
  for (step in 1:12) {
    scores <- X %*% beta + if (is.null(rows$offset)) 0 else rows$offset
    means <- means_of(loss, scores)[, 1]
    missed <- residual(loss, 1, means, rows$targets)
    bend <- curvature(loss, 1, 1, means, means)
    information <- crossprod(X, X * (bend * mass)) + left
    move <- solve(information, crossprod(X, missed * mass) + left %*% beta, tol = 0)
    if (sum(move * (information %*% move)) < 1e-4) break
    beta <- beta - move[, 1] * min(1, 4 / max(abs(move)))
  }
  inverse <- solve(information, tol = 0)
  leverage <- pmin(rowSums((X %*% inverse) * X) * bend * mass, 0.9)
  pulls <- (X %*% inverse) * (mass / (1 - leverage))
  seen <- crossprod(pulls * missed)
  ratio <- if (loss$kind == "gaussian") sum((missed * mass)^2) / sum(bend * mass^2) else 1
  likely <- crossprod(pulls * sqrt(bend)) * ratio
  larger <- sqrt(pmax(1, diag(likely) / diag(seen)))
  turned <- function(matrix) per_unit(design, matrix) -
    if (loss$kind == "gaussian") cbind(rep(decimals(loss$centre), nrow(matrix)), matrix(0, nrow(matrix), p - 1)) else 0
  covariance <- turned(t(turned(seen * outer(larger, larger))))
  estimate <- per_unit(design, matrix(beta, 1))[1, ]
  names(estimate) <- c("(constant)", term_names(design$encoding))
  dimnames(covariance) <- list(names(estimate), names(estimate))
  list(estimate = estimate, covariance = covariance, n_rows = rows$n)
}

own_of <- function(object) {
  own <- if (inherits(object, "replearn_replication")) object$own else object
  if (is.null(own)) refuse("own estimates are for models with one score and at most 500 ",
                           "coefficients. Use Python for others.")
  own
}
vcov_replication <- function(object, ...) own_of(object)$covariance
confint_replication <- function(object, parm, level = 0.95, ...) {
  own <- own_of(object)
  reach <- qnorm((1 + level) / 2) * sqrt(diag(own$covariance))
  found <- cbind(own$estimate - reach, own$estimate + reach)
  colnames(found) <- paste(format(100 * c(1 - level, 1 + level) / 2, trim = TRUE), "%")
  if (missing(parm)) found else found[parm, , drop = FALSE]
}
frame_replication <- function(x, row.names = NULL, optional = FALSE, ...) {
  own <- own_of(x)
  ends <- confint_replication(x)
  data.frame(term = names(own$estimate), model = coef_model(x$model), estimate = own$estimate,
             standard_error = sqrt(diag(own$covariance)), low = ends[, 1], high = ends[, 2],
             row.names = row.names %||% seq_along(own$estimate))
}
`%||%` <- function(a, b) if (is.null(a)) b else a
summary_replication <- function(object, ...)
  structure(list(frame = frame_replication(object), n_rows = object$n_rows,
                 ridge = object$model$design$ridge), class = "replearn_summary")
print_summary <- function(x, ...) {
  cat("This lab's own estimates (", counted(x$n_rows), " rows), without the ridge\n", sep = "")
  print(x$frame[-2], digits = 4, row.names = FALSE)
  cat("Intervals are 95%, robust. The model itself has a ridge of ", x$ridge, ".\n", sep = "")
  invisible(x)
}
plot_replication <- function(x, ...) {
  shown <- frame_replication(x)[-1, ]
  y <- rev(seq_len(nrow(shown)))
  old <- graphics::par(mar = c(4, 14, 1, 1))
  on.exit(graphics::par(old))
  graphics::plot(shown$model, y, xlim = range(0, shown$low, shown$high), yaxt = "n", ylab = "",
                 pch = 19, xlab = "coefficient: dot of the model, line of this lab's interval", ...)
  graphics::segments(shown$low, y, shown$high, y)
  graphics::abline(v = 0, lty = 2)
  graphics::axis(2, y, shown$term, las = 1, cex.axis = 0.8)
  invisible(x)
}

# --- predictions ---------------------------------------------------------------------------------
# As of a glm: "response" gives probabilities (of the second class; for more classes a column for
# each), means or counts, "link" log-odds or logarithms, and "class" the most probable label.
predict_model <- function(object, newdata, type = c("response", "link", "class"), ...) {
  type <- match.arg(type)
  design <- object$design
  loss <- design$loss
  table <- design_table(design, newdata, design$offset, NULL, ...)
  X <- encode(design$encoding, table, is_rounded = FALSE)$X
  scores <- tcrossprod(cbind(1, X), object$theta)
  if (!is.null(design$offset))
    scores <- scores + checked_numbers(table$numbers[[design$offset]], "offset")
  if (loss$kind == "gaussian") scores <- scores * decimals(loss$spread) + decimals(loss$centre)
  if (type == "class") {
    if (is.null(design$classes)) refuse("type must be \"response\" or \"link\" for numbers.")
    return(unlist(design$classes[max.col(cbind(0, scores), ties.method = "first")]))
  }
  link <- if (ncol(scores) > 1) scores else scores[, 1]
  if (type == "link" || loss$kind == "gaussian") return(link)
  if (loss$kind == "poisson") return(exp(pmin(link, loss$cap_bits * LN2_HI)))
  if (ncol(scores) == 1) return(1 / (1 + exp(-link)))
  every <- cbind(0, scores)
  powers <- exp(every - apply(every, 1, max))
  colnames(powers) <- label_texts(design$classes)
  powers / rowSums(powers)
}

# --- what looks different here -------------------------------------------------------------------
# Factors between units that people use for one thing.
UNITS <- c("thousands, or grams and kilograms" = 1000, "percent, or metres and centimetres" = 100,
  "tenths" = 10, "inches and centimetres" = 2.54, "inches and metres" = 39.37,
  "feet and metres" = 3.281, "pounds and kilograms" = 2.205, "miles and kilometres" = 1.609,
  "years and months" = 12, "years and days" = 365.25, "weeks and days" = 7, "days and hours" = 24,
  "hours and minutes" = 60, "mg/dl and mmol/l of glucose" = 18.02,
  "mg/dl and mmol/l of cholesterol" = 38.67, "mg/dl and umol/l of creatinine" = 88.42,
  "mmHg and kPa" = 7.501)
CONSTANT <- "is the same in all rows here, so nothing can be replicated about it"

# Questions to ask about a lab's columns: their names ("" is the target), with sentences.
findings_of <- function(study, table, counts) {
  columns <- study$design$encoding$columns
  rows <- list(here = table$n, original = study$n_original, planned = study$n_replication)
  found <- vapply(seq_along(columns), function(i) {
    column <- columns[[i]]
    look <- if (is_number_column(column)) on_numbers else on_levels
    cells <- (if (is_number_column(column)) table$numbers else table$levels)[[column$name]]
    if (all(is.na(cells))) "has no value in any row here" else
      look(column, study$profile$columns[[i]], cells, rows)
  }, "")
  names(found) <- names_of(columns)
  found <- c(found, if (!is.null(counts)) c(on_labels(
    decimals(unlist(study$profile$target)), counts, rows)))
  found[nzchar(found)]
}

# Quantiles at 5, 25, 50, 75 and 95 %; the outer ones move inwards until 50 rows are beyond.
quantiles_of <- function(x) {
  if ((n <- length(x)) < 50) return(numeric(0))
  tail <- min(max(0.05, 50 / n), 0.25)
  sort(x)[floor(c(tail, 0.25, 0.5, 0.75, 1 - tail) * (n - 1) + 0.5) + 1]
}

# How far two samples of one population have a share apart, but for 7 in a million.
chance <- function(rows, share, other = 0)
  4.5 * sqrt(pmax(share * (1 - share), other * (1 - other)) *
               (1 / max(1, rows$here) + 1 / rows$original))

# Whether it is no chance that all rows have what this share of the original has.
is_odd_constant <- function(rows, share)
  rows$here * log(max(min(share, 1 - 20 / max(40, rows$planned)), 1e-300)) < log(1e-4)

on_numbers <- function(column, theirs, cells, rows) {
  x <- cells[!is.na(cells)]
  study <- decimals(unlist(theirs$quantiles))
  if (min(x) == max(x))
    return(if (is_odd_constant(rows, if (all(study == x[1])) 1 else 0.95)) CONSTANT else "")
  ours <- quantiles_of(x)
  spread <- decimals(column$spread)
  if (length(ours) && length(study) && is_moved(x, ours, study, spread, rows))
    return(other_unit(ours, study, function(x) max(abs(x - study)[2:4]) / spread))
  if (nzchar(words <- missing_code(sort(x)))) return(words)
  counts_as <- if (has_missing_term(column)) "" else paste0(column$centre, ", the study's median")
  on_missing(mean(is.na(cells) & !is.nan(cells)), decimals(theirs$missing), counts_as, rows)
}

# Values that people write where they know none.
CODES <- c(-1, -7, -8, -9, -88, -99, -999, -9999, 77, 88, 99, 777, 888, 999, 7777, 8888, 9999, 99999,
           999999)

# What to ask about sorted numbers one of which may stand for a missing value.
missing_code <- function(x) {
  if (length(x) < 20) return("")
  for (end in c(x[1], x[length(x)])) {
    others <- x[x != end]
    n <- length(others)
    share <- (length(x) - n) / length(x)
    if (n < 20 || share < 0.003) next
    distinct <- length(unique(others[seq(1, n, by = 1 + n %/% 1000)]))
    if (distinct <= 3) next
    at <- function(part) others[floor(part * (n - 1) + 0.5) + 1]
    width <- at(0.95) - at(0.05)
    gap <- if (end == x[1]) others[1] - end else end - others[n]
    is_code <- end %in% CODES && (gap > 0.5 * width || (end < 0 && others[1] >= 0))
    if (end == 0 && end == x[1] && distinct > 10) is_code <- at(0.01) > 0.6 * width
    if (is_code)
      return(sprintf(paste("holds %s in %.1f%% of the rows, far from all other values: is it a code",
                           "for missing values? Then leave such cells empty"), number_texts(end),
                     100 * share))
  }
  ""
}

# Whether a quartile is more than a spread away, and no chance explains that.
is_moved <- function(x, ours, study, spread, rows) {
  sampled <- list(here = length(x), original = min(rows$original, 16384))
  share <- c(0.25, 0.5, 0.75)
  below <- vapply(study[2:4], function(q) mean(x < q - spread / 100), 0)
  up_to <- vapply(study[2:4], function(q) mean(x <= q + spread / 100), 0)
  far <- abs(ours - study)[2:4] > spread
  any(far & (below > share + chance(sampled, share) | up_to < share - chance(sampled, share)))
}

# Gaps that the study has no coefficient for are told early, others if they are far more.
on_missing <- function(share, usual, counts_as, rows) {
  most <- max(usual, 10 / rows$original)
  many <- max(if (nzchar(counts_as)) 0.05 else 0.2, chance(rows, most, share))
  if (share - usual < many && share < 0.5) return("")
  words <- sprintf("is missing in %.0f%% of the rows here, in the study in %.0f%%", 100 * share,
                   100 * usual)
  if (nzchar(counts_as)) paste0(words, ": such cells count as ", counts_as) else words
}

# The change of unit or code that brings the lab's quantiles to the study's.
other_unit <- function(ours, study, away) {
  shift <- ours[3] - study[3]
  if (all(ours - study == shift) && shift == floor(shift))
    return(paste0("is ", number_texts(abs(shift)), if (shift > 0) " larger" else " smaller",
                  " throughout than in the study: is it coded differently, such as 1 and 2 for 0 ",
                  "and 1?"))
  times <- paste0(number_texts(UNITS), " times %s (", names(UNITS), "?)")
  factors <- c(1.8, 1 / 1.8, rbind(UNITS, 1 / UNITS))
  moves <- c(32, -32 / 1.8, rep(0, 2 * length(UNITS)))
  words <- c("in degrees Fahrenheit", "in degrees Celsius",
             rbind(sprintf(times, "as large"), sprintf(times, "smaller")))
  far <- vapply(seq_along(words), function(i) away((ours - moves[i]) / factors[i]), 0)
  best <- which.min(far)
  near <- abs((ours[3] - moves[best]) / factors[best] - study[3]) <= 0.15 * abs(study[3])
  paste0(if (far[best] < 0.5 && near) paste0("seems to have a different unit: it is ", words[best], "; ")
         else "has very different values: ", "half of the rows are above ", number_texts(ours[3]),
         " here, in the study above ", number_texts(study[3]))
}

on_levels <- function(column, theirs, cells, rows) {
  names <- c(column$reference, as.character(unlist(column$levels)))
  study <- decimals(unlist(theirs$shares))
  share_of <- function(name) if (name %in% names) study[match(name, names)] else NULL
  if (!anyNA(cells) && length(unique(cells)) == 1) {
    share <- c(share_of(cells[1]), share_of("(other)"), 0)[1]
    return(if (is_odd_constant(rows, share)) CONSTANT else "")
  }
  ours <- vapply(names, function(name) sum(cells == name, na.rm = TRUE) / rows$here, 0)
  named <- which(!names %in% c("(other)", "(missing)"))
  apart <- chance(rows, study, ours)
  for (i in named) for (j in named) {
    gap <- study[i] - study[j]
    turned <- ours[j] - ours[i]
    if (gap > 0.2 && turned > gap / 2 && gap + turned > apart[i] + apart[j])
      return(sprintf(paste0("may have its levels %s and %s exchanged: here %.0f%% and %.0f%% of the ",
        "rows, in the study %.0f%% and %.0f%%"), quoted(names[i]), quoted(names[j]), 100 * ours[i],
        100 * ours[j], 100 * study[i], 100 * study[j]))
  }
  others <- quoted(if ("(other)" %in% names) "(other)" else column$reference)
  folded <- if (is.null(column$folded)) 0 else decimals(column$folded)
  unknown <- mean(!cells[!is.na(cells)] %in% c(names, "(other)", "(missing)"))
  if (unknown > folded + max(0.05, chance(rows, folded, unknown)))
    return(sprintf(paste("has levels here that the study does not have, in %.0f%% of the rows: they",
                         "count as %s"), 100 * unknown, others))
  on_missing(mean(is.na(cells)), c(share_of("(missing)"), 0)[1],
             if (has_missing_term(column)) "" else others, rows)
}

on_labels <- function(study, counts, rows) {
  shares <- counts / max(1, sum(counts))
  if (length(shares) != length(study)) return("")
  away <- abs(shares - study)
  is_odd <- away > chance(rows, study, shares)
  if (length(study) == 2 && abs(study[2] - 0.5) > 0.1 && is_odd[2] &&
      abs(shares[2] - study[1]) < away[2] / 3)
    return(sprintf(paste0("the labels may be exchanged: the second class has %.0f%% of the rows here, ",
                          "in the study %.0f%%"), 100 * shares[2], 100 * study[2]))
  ratios <- pmax(shares, 1e-9) / pmax(study, 1e-9)
  far <- pmax(away / 0.25, abs(log(ratios)) / log(4)) * is_odd
  odd <- which.max(far)
  if (far[odd] <= 1) return("")
  sprintf("class %d has %.1f%% of the rows here, in the study %.1f%%", odd - 1L, 100 * shares[odd],
          100 * study[odd])
}

# Whether rows here vary as the study states: what a match proves rests on that.
spread_finding <- function(study, rows, theta) {
  if (length(theta) > 500) return(NULL)  # it would take too long
  ratio <- median(decimals(unlist(study$spreads)) / spreads_of(study$design, rows, theta))
  if ((ratio > 1 / 3 && ratio < 3) || rows$n < 50) return(NULL)
  c(sprintf(paste("the study states that its numbers vary %.2g times as much as they do here, so what",
                  "a match proves is not known"), ratio))
}

# Standard deviation of one row's influence on each number: what is seen, with leverages taken out, or
# what the model lets expect, whichever is larger. For reading, so R may add up as it likes.
spreads_of <- function(design, rows, theta) {
  loss <- design$loss
  S <- nrow(theta)
  p <- ncol(theta)
  total <- if (is.null(rows$weights)) rows$n else sum(rows$weights)
  some <- round(seq(1, rows$n, length.out = min(rows$n, 2^15)))
  rows <- list(X = rows$X[some, , drop = FALSE], targets = rows$targets[some], n = length(some),
               weights = rows$weights[some], offset = rows$offset[some], marks = numeric(length(some)))
  sums <- sums_at(rows, loss, theta, ALL)
  information <- mean_information(sums, loss, decimals(design$ridge), S, p)
  coordinates <- kronecker(triangle(design$coordinates$scores), columns_of(design$coordinates)) * 2^-28
  turn <- solve(information, coordinates, tol = 0)
  X <- rows$X / 4096
  scores <- scores_of(rows, theta)
  means <- means_of(loss, scores)
  mass <- if (is.null(rows$weights)) rep(1, rows$n) else rows$weights
  seen <- expected <- squares <- misfit <- noise <- 0
  few <- Inf
  for (k in seq_len(S)) {
    own <- (k - 1) * p + seq_len(p)
    left <- residual(loss, k, means[, k], rows$targets)
    bend <- curvature(loss, k, k, means[, k], means[, k])
    lengths <- rowSums(X * t(solve(information[own, own], t(X), tol = 0)))
    pull <- X %*% turn[own, ] * (mass / (1 - pmin(lengths * bend * mass / total, 0.9)))
    seen <- seen + pull * left
    expected <- expected + means[, k] * pull
    squares <- squares + (if (loss$kind == "gaussian") 1 else means[, k]) * pull^2
    square <- (left * mass)^2
    misfit <- misfit + sum(square)
    noise <- noise + sum(bend * mass^2)
    few <- min(few, max(sum(square)^2 / max(sum(square^2), 1e-300), 0.1))
  }
  ratio <- misfit / max(noise, 1e-300)
  most <- ratio * (1 + 3 * sqrt(2 / few) + 10 / few)
  dispersion <- if (most < 1) most else max(1, ratio)
  is_classes <- loss$kind %in% c("bernoulli", "multinomial")
  likely <- colSums(if (is_classes) squares - expected^2 else squares)
  sqrt(pmax(colSums(seen^2), likely * dispersion) * rows$n) / sum(mass)
}

# --- what a model is worth, and what a match proves ----------------------------------------------
# A weighted mean over rows, and how far its 95 % confidence interval reaches.
measured <- function(values, mass) {
  value <- sum(values * mass) / sum(mass)
  c(value, 1.959963984540054 * sqrt(sum(((values - value) * mass)^2)) / sum(mass))
}

row_losses <- function(loss, scores, targets) {
  switch(loss$kind, gaussian = (scores[, 1] - targets)^2 / 2,
    poisson = exp(pmin(scores[, 1], loss$cap_bits * LN2_HI)) - targets * scores[, 1], {
      every <- cbind(0, scores)
      top <- do.call(pmax, as.data.frame(every))
      top + log(rowSums(exp(every - top))) - every[cbind(seq_along(targets), targets + 1)]
    })
}

# Loss beside that of the base rate, and AUC or balanced accuracy: rows of value, low, high.
worth_of <- function(design, codes, rows) {
  loss <- design$loss
  y <- rows$targets
  mass <- if (is.null(rows$weights)) rep(1, rows$n) else rows$weights
  scores <- scores_of(rows, on_grid(theta_of(design$coordinates, decoded(design, codes)), 26))
  constant <- matrix(start_of(loss, shares_of(rows, loss)), rows$n, ncol(scores), byrow = TRUE)
  base <- measured(row_losses(loss, constant, y), mass)[1]
  found <- measured(row_losses(loss, scores, y), mass)
  name <- switch(loss$kind, gaussian = "half the squared error", poisson = "half the deviance",
                 "log-loss")
  worth <- data.frame(name = name, value = found[1], low = found[1] - found[2],
                      high = found[1] + found[2], base = base)
  if (is.null(design$classes)) return(worth)
  rank <- if (ncol(scores) == 1) auc(scores[, 1], y, mass) else {
    right <- max.col(cbind(0, scores), ties.method = "first") == y + 1
    parts <- vapply(unique(y), function(k) measured(right[y == k], mass[y == k]), c(0, 0))
    c(mean(parts[1, ]), sqrt(sum(parts[2, ]^2)) / ncol(parts))
  }
  rbind(worth, data.frame(name = if (ncol(scores) == 1) "AUC" else "balanced accuracy",
    value = rank[1], low = max(0, rank[1] - rank[2]), high = min(1, rank[1] + rank[2]), base = NA))
}

# The chance that a row of the second class has the larger score; its interval is DeLong's.
auc <- function(scores, y, mass) {
  place <- match(scores, sort(unique(scores)))
  below <- function(chosen) {  # the share of some rows that lie below each row, ties by half
    at <- tapply(mass * chosen, place, sum)
    ((cumsum(at) - at / 2) / sum(at))[place]
  }
  up <- measured(below(y == 0)[y == 1], mass[y == 1])
  down <- measured(below(y == 1)[y == 0], mass[y == 0])
  c(up[1], sqrt(up[2]^2 + down[2]^2))
}

# Widths of cells in standard deviations between the original and a lab with so many rows.
ratios_of <- function(study, n)
  widths_of(study$design) / (decimals(unlist(study$spreads)) * sqrt(1 / study$n_original + 1 / n))

# Probability that two labs differ in one number; widths are in standard deviations.
miss_rate <- function(width, bits) {
  reach <- width / 2^(bits + 1)
  tail <- function(t) t * pnorm(-t) - dnorm(t)
  pmax(0, pmin((tail(width / 2 + reach) - tail(width / 2 - reach)) / reach, 1 - 1e-12))
}

# Estimated probability that a lab with so many rows gets a different model. Standard deviations are
# geometric means of those that the original saw and those that its cells were planned with.
disagreement_of <- function(study, n) {
  bits <- study$design$bits
  planned <- ratios_of(study, study$n_replication)
  too_often <- function(width)
    length(planned) * miss_rate(width, bits) > as.double(study$max_disagreement)
  low <- 1e-3
  high <- 1
  while (too_often(high)) high <- 2 * high
  for (i in 1:60) {
    middle <- (low + high) / 2
    if (too_often(middle)) low <- middle else high <- middle
  }
  -expm1(sum(log1p(-miss_rate(ratios_of(study, n) * sqrt(high / planned), bits))))
}

# Bits of a normal number that is rounded to cells of this many standard deviations.
entropy <- function(ratio) {
  if (ratio < 0.5) return(0.5 * log2(2 * pi * exp(1)) - log2(ratio))
  k <- 0:40
  p <- pnorm((k + 0.5) * ratio) - pnorm((k - 0.5) * ratio)
  p <- ifelse(p < 1e-12, 1, p)  # which adds nothing
  -sum(ifelse(k == 0, 1, 2) * p * log2(p))
}

# The least number of rows at which something holds that holds beyond it too.
first_rows <- function(holds) {
  low <- 0
  high <- 1
  while (!holds(high)) {
    low <- high
    high <- high * 2
    if (high > 1e12) return(1e12)
  }
  while (high - low > max(1, low %/% 100)) {
    middle <- (low + high) %/% 2
    if (holds(middle)) high <- middle else low <- middle
  }
  high
}

# Rows that a lab needs to get the model half of the time, and bits against a guess without rows; both
# for somebody who tries 2^40 neighbours, too, unless a seal forbids it.
evidence_of <- function(study, codes) {
  design <- study$design
  rows <- first_rows(function(n) prod(2 * pnorm(ratios_of(study, n) / 2) - 1) >= 0.5)
  hidden <- rep(seq_len(n_columns(design)) > 1, n_scores(design$loss))  # the base rate gives constants
  scale <- sqrt(mean(decoded(design, codes)[hidden]^2))
  bits <- 0
  if (is.finite(scale) && scale > 0) {
    shift <- ((shifts_of(design) - sketch_of(design)) %% 1)[hidden]
    off <- pmin(shift, 1 - shift)
    width <- widths_of(design)[hidden] / scale
    bits <- -sum(log2(pmax(pnorm((off + 0.5) * width) - pnorm((off - 0.5) * width), 1e-300)))
  }
  if (isTRUE(study$sealed) || is.null(study$commitment)) return(list(rows = rows, bits = bits))
  search <- if (bits > 40)
    first_rows(function(n) sum(vapply(ratios_of(study, n), entropy, 0)) <= 40) else 0
  list(rows = rows, bits = bits, rows_search = min(search, rows), bits_search = max(0, bits - 40))
}

# The original's codes, if one or two numbers next to a wall make the difference; or NULL.
neighbour <- function(study, codes, positions) {
  near <- head(order(abs(abs(positions) - 0.5)), 24)
  tries <- c(as.list(near), if (length(near) > 1) combn(head(near, 8), 2, simplify = FALSE))
  moved <- lapply(tries, function(i) replace(codes, i, codes[i] + ifelse(positions[i] > 0, 1, -1)))
  design <- canonical(study$design)
  texts <- lapply(moved, function(codes) charToRaw(paste0('{"codes":', canonical(as.list(codes)),
    ',"design":', design, ',"format":"replearn/model","version":1}')))
  found <- which(do.call(sha256, texts) == study$commitment)
  if (length(found)) moved[[found[1]]]
}

# --- replications --------------------------------------------------------------------------------
# Fit a study on a lab's own rows: a data.frame, or the path of a CSV file. `opened` is the original's
# model, once it is open; `nonce` opens the commitment of a sealed study.
replicate <- function(study, data, opened = NULL, nonce = NULL, ...) {
  if (is.character(study)) study <- read_study(study)
  if (is.character(opened)) opened <- read_model(opened)
  design <- study$design
  rows <- rows_of(design, data, ...)
  theta <- fit(rows, design$loss, decimals(design$ridge))
  z <- coordinates_of(design$coordinates, theta)
  offsets <- offsets_of(design, z)
  codes <- floor(offsets + 0.5) + 0
  model <- make_model(design, codes)
  commits_to <- function(fingerprint) {
    if (is.null(study$commitment) || (isTRUE(study$sealed) && is.null(nonce))) return(NA)
    if (isTRUE(study$sealed))
      fingerprint <- sha256(charToRaw(paste0("replearn/seal/1\n", nonce, "\n", fingerprint)))
    study$commitment == fingerprint
  }
  same <- commits_to(model$fingerprint)
  if (!is.null(opened)) {
    if (isTRUE(study$sealed) && is.null(nonce))
      refuse("a sealed study needs its opening, which proves that the model is the original's, got ",
             "a model alone. Pass its nonce, too.")
    if (canonical(opened$design) != canonical(design) || isFALSE(commits_to(opened$fingerprint)))
      refuse("the opened model must be the one that the study commits to, got a different one. Ask ",
             "the original for its model file.")
    same <- opened$fingerprint == model$fingerprint
  }
  known <- if (isTRUE(same)) codes else opened$codes
  if (is.null(known) && isFALSE(same) && !isTRUE(study$sealed))
    known <- neighbour(study, codes, offsets - codes)
  found <- list(same = same, fingerprint = model$fingerprint, model = model, n_rows = rows$n,
    planned_rows = study$n_replication, disagreement = disagreement_of(study, rows$n),
    evidence = evidence_of(study, codes),
    findings = c(rows$findings(study), spread_finding(study, rows, theta)),
    worth = worth_of(design, codes, rows), own = own_estimates(design, rows, theta),
    nearest = number_names(design)[head(order(abs(abs(offsets - codes) - 0.5)), 5)],
    positions = offsets - if (is.null(known)) codes else known)
  if (!is.null(known)) {
    deviations <- decimals(unlist(study$spreads)) * sqrt(1 / study$n_original + 1 / rows$n)
    rounding <- widths_of(design)^2 / (12 * 4^design$bits)
    scaled <- (z - decoded(design, known)) / sqrt(deviations^2 + rounding)
    found$same_population <- min(1, length(z) * 2 * pnorm(-max(abs(scaled))))
    differences <- data.frame(number = number_names(design), cells = codes - known,
                              standardised = scaled)[order(-abs(scaled)), ]
    found$differences <- differences[differences$cells != 0, ]
  }
  structure(found, class = "replearn_replication")
}

# --- in words ------------------------------------------------------------------------------------
percent <- function(share) {
  decimals <- if (share >= 0.01 || share == 0) 1 else 2
  least <- 10^-(decimals + 2)
  if (share > 0 && share < least / 2) return(sprintf("<%.*f%%", decimals, 100 * least))
  if (share < 1 && share > 1 - least / 2) return(sprintf(">%.*f%%", decimals, 100 * (1 - least)))
  sub("[.]0+%", "%", sprintf("%.*f%%", decimals, 100 * share))
}

# Numbers with one precision.
reals_in_words <- function(values) {
  largest <- max(abs(values))
  exponent <- if (largest > 0) floor(log10(largest)) else 0
  if (exponent < -5 || exponent > 14) return(sprintf("%.2e", values))
  digits <- if (exponent >= 0) max(3 - exponent, 0) else 2 - exponent
  formatC(values + 0, format = "f", digits = digits, big.mark = ",")
}

two_digits <- function(number) counted(signif(number, 2))

proof_in_words <- function(proof) {
  if (proof$bits < 10)
    return(paste0("A match proves little: a guess without rows hits once in about ",
                  two_digits(round(2^proof$bits)), " tries."))
  paste0("A lab needs about ", two_digits(proof$rows), " rows of its own to get this model",
         if (!is.null(proof$rows_search)) {
           if (proof$rows_search < 50) "; one that tries 2^40 models needs hardly any"
           else paste0("; one that tries 2^40 models, about ", two_digits(proof$rows_search))
         }, ".")
}

# Findings for people: columns about which the same is to be said share a sentence.
in_sentences <- function(findings) {
  vapply(unique(findings), function(sentence) {
    names <- names(findings)[findings == sentence]
    if (length(names) > 1)
      return(paste0(length(names), " columns (", quoted(head(names, 4)), if (length(names) > 4) ", ...",
                    "): each ", sentence, "."))
    if (nzchar(names)) return(paste0("Column ", quoted(names), " ", sentence, "."))
    paste0(toupper(substr(sentence, 1, 1)), substring(sentence, 2), ".")
  }, "", USE.NAMES = FALSE)
}

# What Python's `replicate` says: a verdict, items and details. Items with names are values.
in_words <- function(x) {
  sentences <- in_sentences(x$findings)
  worth <- vapply(seq_len(nrow(x$worth)), function(i) {
    row <- x$worth[i, ]
    ends <- reals_in_words(c(row$value, row$low, row$high))
    paste0(ends[1], " (", ends[2], " to ", ends[3], ")", if (!is.na(row$base))
      paste(if (startsWith(row$name, "half")) ", mean alone" else ", base rate alone",
            reals_in_words(c(row$value, row$low, row$high, row$base))[4]))
  }, "")
  worth <- sub(" ,", ",", setNames(worth, x$worth$name), fixed = TRUE)
  verdict <- "A model was made; the study does not tell whether it is the original's."
  items <- paste("Compare the fingerprint with those of other labs, or pass --opened with the",
                 "original's model.")
  if (isTRUE(x$same)) {
    verdict <- "The same model: these rows give exactly the original's model."
    items <- proof_in_words(x$evidence)
  } else if (isFALSE(x$same)) {
    verdict <- "A different model: these rows do not give the original's model."
    p <- x$same_population
    is_few <- x$n_rows < x$planned_rows && x$disagreement > 0.05
    apart <- head(x$differences, 3)
    items <- c(head(sentences, 2),
      if (is_few) paste0(counted(x$n_rows), " rows are few: the study was planned for ",
                         counted(x$planned_rows), ".")
      else if (is.null(p) || p > 0.01)
        paste("Chance alone makes", percent(x$disagreement), "of such labs differ."),
      if (!is.null(p)) c(populations = paste0(
        if (p > 0.01) "not shown to differ, " else "they differ, ",
        if (p < 0.001) "p < 0.001" else sprintf("p = %.3f", p))),
      if (NROW(apart)) setNames(sprintf("%s cell%s apart, %+.1f standard deviations",
        counted(abs(apart$cells)), ifelse(abs(apart$cells) == 1, "", "s"), apart$standardised),
        apart$number)
      else paste0("Coefficients nearest to the edge of their cells: ",
                  paste(head(x$nearest, 3), collapse = ", "), "."))
  }
  rows <- paste0(counted(x$n_rows), ", planned for ", counted(x$planned_rows))
  rate <- paste0(percent(max(1 - x$disagreement, 1e-5)), ", estimated for ", counted(x$n_rows), " rows")
  list(verdict = verdict,
    items = c(paste("Fingerprint", x$fingerprint), items, "rows here" = rows, "agreement rate" = rate,
              if (isTRUE(x$same)) worth),
    details = c(if (isFALSE(x$same)) tail(sentences, -2) else sentences,
      if (!isTRUE(x$same)) c("On the rows of the fit, so a little too good:", worth),
      "proof in bits" = paste0(reals_in_words(x$evidence$bits), ", against a guess without rows"),
      if (!is.null(x$evidence$bits_search))
        c("after 2^40 guesses" = reals_in_words(x$evidence$bits_search))))
}

print_replication <- function(x, ...) {
  words <- in_words(x)
  shown <- c(words$items, if (isTRUE(x$same)) in_sentences(x$findings))
  shown <- sub("pass --opened with the original's model", "pass the original's model as opened =",
               shown, fixed = TRUE)
  names <- names(shown)
  is_value <- nzchar(names)
  cat(words$verdict, "\n", sep = "")
  cat(ifelse(is_value, sprintf("  %-*s  %s", max(nchar(names)), names, shown), shown), sep = "\n")
  invisible(x)
}

print_study <- function(x, ...) {
  cat("A study of '", x$design$target, "', planned for ", counted(x$n_replication), " rows.",
      "\n  columns      ", quoted(names_of(x$design$encoding$columns)),
      "\n  fingerprint  ", x$fingerprint, "\n", sep = "")
  invisible(x)
}

print_model <- function(x, ...) {
  cat("A model of '", x$design$target, "', fingerprint ", x$fingerprint, "\n", sep = "")
  cat("Coefficients: per unit of a number, of a level against its reference\n")
  print(t(x$coefficients), digits = 5)
  invisible(x)
}

registerS3method("print", "replearn_replication", print_replication)
registerS3method("print", "replearn_study", print_study)
registerS3method("print", "replearn_model", print_model)
registerS3method("predict", "replearn_model", predict_model)
registerS3method("coef", "replearn_model", coef_model)
registerS3method("coef", "replearn_replication", function(object, ...) own_of(object)$estimate)
registerS3method("vcov", "replearn_replication", vcov_replication)
registerS3method("confint", "replearn_replication", confint_replication)
registerS3method("as.data.frame", "replearn_replication", frame_replication)
registerS3method("summary", "replearn_replication", summary_replication)
registerS3method("print", "replearn_summary", print_summary)
registerS3method("plot", "replearn_replication", plot_replication)

list(study = read_study, replicate = replicate, model = read_model, save = save_model,
     internal = environment())
})
