# Replicate a study of replearn in R: base R and jsonlite, nothing else. The package in r/ is this file.
#
#   source("replicate.R")
#   study <- replearn$study("study.json")
#   found <- replearn$replicate(study, "patients.csv")   # or a data.frame
#   found                                                # the same model, and do patients support it?
#   summary(found)                                       # with own estimates and their intervals
#   replearn$save(found$model, "model.json")             # the bytes that Python writes
#   predict(found$model, newdata)                        # probabilities
#   coef(found$model)                                    # per unit, with their constant
#   replearn$update(found$original, "patients.csv")      # its slopes, with a base risk of these rows
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
# Numbers that all implementations share: docs/vectors.json has them under "constants".
ROW_BITS <- 12              # terms have units of 2^-12
THETA_BITS <- 26            # coefficients
WEIGHT_BITS <- 16           # weights
RESIDUAL_BITS <- 22         # residuals and curvatures
TRIANGLE_BITS <- 14         # triangles of coordinates
MAX_ROW <- 16384            # the largest term, in units
MAX_THETA <- 16             # the largest coefficient
MAX_SCORE <- 30             # scores beyond it change no mean
MAX_TEXT <- 4096            # characters of a text
ROWS_PER_COEFFICIENT <- 128 # that a sampled information matrix is of
LEAST_PIVOT <- 2^-24
NEAR <- 2^20                # a fit ends so near, in units, divided by the root of rows
NEAR_ENOUGH <- 2^16
LARGE_STEP <- 0.125         # beyond it a step is sampled
MOST_STEPS <- 5000
MOST_STEERED <- 500         # coefficients with a whole information matrix
MOST_PAIRED <- 64           # columns for each score after the second one, whose pairs are steered
MEMORY <- 10                # steps that are remembered
MOST_BY_CLASS <- 10         # steps with the information of each class alone
MOST_CHANCE <- 1 - 1e-12    # that a number leaves its cell
MOST_UPPER <- 8             # cells are at most so many times as wide as rows imply
MOST_SPREAD <- 3            # spreads that differ so many times are odd
LEAST_BITS <- 20            # what a match proves below it is weak
MOST_RUN <- 2^14            # guesses that are made one by one
MOST_COUNTED <- 256         # of the narrowest cells
MOST_BITS <- 1000
LEAST_COUNT <- 10           # rows that a message may speak of
MOST_UNKNOWN <- 0.05        # shares of odd cells that are asked about
MOST_MISSING <- 0.2
MOST_GAPS <- 0.05
FEWEST_ROWS <- 20           # of a column that is looked at
CHANCE <- 4.5               # standard deviations that chance explains
LEAST_APART <- 20           # rows of the study that must differ
ONE <- 2^ROW_BITS

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
    out[left[right]] <- ecmascript(tried[right])
    left <- left[!right]
  }
  out
}

ecmascript <- function(texts) {  # of [-]d.ddde+dd
  parts <- strsplit(texts, "e", fixed = TRUE)
  mantissas <- vapply(parts, `[`, "", 1)
  point <- as.integer(vapply(parts, `[`, "", 2)) + 1L
  sign <- ifelse(startsWith(mantissas, "-"), "-", "")
  digits <- sub("(.)0+$", "\\1", gsub("[-.]", "", mantissas))
  n <- nchar(digits)
  whole <- paste0(digits, strrep("0", pmax(point - n, 0)))
  cut <- paste0(substr(digits, 1, point), ".", substring(digits, pmax(point, 0) + 1))
  small <- paste0("0.", strrep("0", pmax(-point, 0)), digits)
  scaled <- paste0(substr(digits, 1, 1), ifelse(n > 1, ".", ""), substring(digits, 2),
                   sprintf("e%+d", point - 1L))
  paste0(sign, ifelse(n <= point & point <= 21, whole,
    ifelse(0 < point & point <= 21, cut, ifelse(-6 < point & point <= 0, small, scaled))))
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
  limbs <- lapply(1:4, function(i) words[, i])
  over <- 0
  out <- lapply(1:8, function(k) {
    sum <- over
    for (i in 1:4) if (k - i >= 0 && k - i < 4) sum <- sum + limbs[[i]] * constant[k - i + 1]
    over <<- floor(sum / 65536)
    rep_len(sum - over * 65536, nrow(words))
  })
  matrix(unlist(out), ncol = 8)
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
  e <- exact_exp(-pmin(abs(s), MAX_SCORE))
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
# A hazard is a count of events, of rows at risk.
family_of <- function(loss) if (loss$kind == "hazard") "poisson" else loss$kind
n_scores <- function(loss) if (loss$kind == "multinomial") loss$n_classes - 1 else 1
loss_bits <- function(loss) switch(family_of(loss), gaussian = WEIGHT_BITS,
                                    poisson = RESIDUAL_BITS - loss$cap_bits, RESIDUAL_BITS)
means_of <- function(loss, scores) {
  switch(family_of(loss), bernoulli = matrix(sigmoid(scores[, 1])),
    gaussian = matrix(pmin(pmax(scores[, 1], -48), 48)),
    poisson = matrix(exact_exp(pmin(pmax(scores[, 1], -MAX_SCORE), loss$cap_bits * LN2_HI))),
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
  switch(family_of(loss), gaussian = rep(1, length(mean)), poisson = mean,
         mean * ((k == l) - other))
}

# Shares of the classes by weight, or the mean target.
shares_of <- function(rows, loss) {
  mass <- if (is.null(rows$weights)) rep(2^WEIGHT_BITS, rows$n) else
    on_grid(rows$weights, WEIGHT_BITS)
  if (!any(mass > 0)) refuse("rows must have some weight, got none. Pass more rows.")
  if (family_of(loss) %in% c("gaussian", "poisson")) {
    share <- sum(floor(rows$targets * mass + 0.5)) / sum(mass)
    if (family_of(loss) == "poisson" && !(share > 0))
      refuse(if (loss$kind == "hazard") "some event must have been seen. Get rows with events."
             else "counts must not all be zero. Get rows with some events.")
    return(share)
  }
  shares <- vapply(0:n_scores(loss), function(k) sum(mass[rows$targets == k]), 0) / sum(mass)
  if (!all(shares > 0))
    refuse("rows must have all classes, but some class has no row. Get rows of each class.")
  shares
}

start_of <- function(loss, shares) {
  switch(family_of(loss), gaussian = shares, poisson = exact_log(shares),
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

# Well-mixed numbers of the content of rows, by which rows are sampled: two exact sums of a row's
# numbers times fixed random odd factors below 2^24, mixed.
marks <- function(X, sums = 0:1) {
  mixed <- function(x) {
    x <- product32(xor32(x, x %/% 65536), 0x85EBCA6B)
    x <- product32(xor32(x, x %/% 8192), 0xC2B2AE35)
    xor32(x, x %/% 65536)
  }
  x <- numeric(nrow(X))
  for (sum in sums) {
    factors <- mixed(product32(4 * seq_len(ncol(X)) + sum, 0x9E3779B1)) %/% 256
    factors <- factors + (factors %% 2 == 0)
    whole <- drop(X %*% factors)
    high <- floor(whole / ALL)
    x <- mixed(xor32(mixed(xor32(x, whole - high * ALL)), high %% ALL))
  }
  x
}

# The offset of some rows: one for all scores, or a column for each.
offset_at <- function(rows, part)
  if (is.matrix(rows$offset)) rows$offset[part, , drop = FALSE] else rows$offset[part]

# Scores of rows, a column for each.
scores_of <- function(rows, theta) {
  if (!all(rowSums(abs(theta)) * MAX_ROW < 2^53))
    refuse("coefficients must keep scores below 2^15, got larger ones. Use a larger ridge.")
  scores <- tcrossprod(rows$X, theta) * POWER(-38)
  if (is.null(rows$offset)) scores else scores + rows$offset
}

# How many coefficients are steered: "pairs", by matrices of all pairs of scores; "classes", by one of
# each class; "alone", by a first row and a diagonal of each class.
form_of <- function(S, p) {
  if (S * p <= MOST_STEERED && (S - 2) * p <= MOST_PAIRED) return("pairs")
  if (p <= MOST_STEERED) "classes" else "alone"
}

# Second derivatives of rows for a pair of scores; score 0 is the first class.
curvature_at <- function(loss, means, k, l) {
  if (k > 0) return(curvature(loss, k, l, means[, k], means[, l]))
  first <- rep(1, nrow(means))
  for (column in seq_len(ncol(means))) first <- first - means[, column]
  first <- pmax(first, 0)
  first * (1 - first)
}

# Gradient and information at theta, a row for each score. X has the constant, 4096, first.
sums_at <- function(rows, loss, theta, share, form = "pairs") {
  p <- ncol(theta)
  bits <- loss_bits(loss)
  gradient <- list(hi = matrix(0, p, nrow(theta)), lo = matrix(0, p, nrow(theta)))
  S <- seq_len(nrow(theta))
  own <- if (nrow(theta) > 1) c(0, S) else S  # by class, the first class too
  pair <- if (form == "pairs") subset(expand.grid(l = S, k = S), k <= l)
          else data.frame(l = own, k = own)
  zeros <- matrix(0, if (form == "alone") 2 else p, p)
  information <- if (share > 0) rep(list(list(hi = zeros, lo = zeros)), nrow(pair))
  weight <- sampled <- 0
  for (start in seq(1, rows$n, by = BLOCK)) {
    part <- start:min(start + BLOCK - 1, rows$n)
    X <- if (length(part) == rows$n) rows$X else rows$X[part, , drop = FALSE]
    means <- means_of(loss, scores_of(list(X = X, offset = offset_at(rows, part)), theta))
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
        values <- curvature_at(loss, means[some, , drop = FALSE], k, l)
        values <- on_grid(values * weights[some], bits)
        found <- if (form != "alone") crossprod(coarse * values, coarse)
                 else rbind(crossprod(values, coarse) * 256, crossprod(values, coarse^2))
        information[[i]] <- pairs_added(information[[i]], found)
      }
    }
  }
  list(weight = weight, sampled = sampled, gradient = gradient, information = information, pair = pair)
}

# --- Newton's method -----------------------------------------------------------------------------
share_of <- function(n_rows, q) {
  wanted <- max(ROWS_PER_COEFFICIENT * q, 8192)
  if (2 * wanted > n_rows) return(ALL)
  share <- floor(wanted * ALL / n_rows)
  share - (share * n_rows > wanted * ALL)
}

mean_gradient <- function(sums, loss, ridge, theta) {
  out <- t(reals(sums$gradient)) * POWER(4 - loss_bits(loss)) / sums$weight
  values <- theta * POWER(-THETA_BITS)
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
    step <- (points[[i]]$theta - points[[i - 1]]$theta) * POWER(-THETA_BITS)
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

# Inverse information, or nearly, times a vector: see docs/format.md, section 10.
preconditioner_of <- function(sums, loss, ridge, S, p, form) {
  if (form == "pairs") {
    lower <- cholesky(mean_information(sums, loss, ridge, S, p), LEAST_PIVOT)
    return(function(right) solved(lower, right))
  }
  solvers <- lapply(sums$information, function(one) {
    part <- reals(one) * POWER(-loss_bits(loss)) / max(sums$sampled, 1)
    if (form == "alone") return(function(right) solved_alone(part, right, ridge))
    lower <- cholesky(part + diag(c(0, rep(ridge, p - 1)), p), LEAST_PIVOT)
    function(right) solved(lower, right)
  })
  function(right) by_class(solvers, right, p)
}

# Each class is solved alone; scores are differences to the first class.
by_class <- function(solvers, right, p) {
  if (length(solvers) == 1) return(solvers[[1]](right))
  by_score <- matrix(right, p)
  first <- rep(0, p)
  for (k in seq_len(ncol(by_score))) first <- first - by_score[, k]
  base <- solvers[[1]](first)
  unlist(lapply(seq_len(ncol(by_score)), function(k) solvers[[k + 1]](by_score[, k]) - base))
}

# Inverse information of columns that are alone beside the constant, times a vector.
solved_alone <- function(part, right, ridge) {
  head <- max(part[1, 1], LEAST_PIVOT)
  own <- part[2, -1] + ridge
  slope <- part[1, -1] / head
  alone <- pmax(own - part[1, -1] * slope, own / 64, LEAST_PIVOT)
  found <- (right[-1] - slope * right[1]) / alone
  c(right[1] / head - in_order(slope * found), found)
}

# Coefficients at which the mean loss with its ridge is smallest: whole numbers of units of 2^-26, a
# row for each score. It ends `near` the smallest loss; `on_pass` is told of every pass over the rows.
fit <- function(rows, loss, ridge, on_pass = function(theta, share) NULL,
                near = min(NEAR_ENOUGH, max(1, floor(NEAR / sqrt(rows$n))))) {
  S <- n_scores(loss)
  p <- ncol(rows$X)
  form <- form_of(S, p)
  rows$marks <- marks(rows$X)
  passed <- function(there, some) {
    on_pass(there, some)
    sums_at(rows, loss, there, some, form)
  }
  theta <- matrix(0, S, p)
  theta[, 1] <- on_grid(start_of(loss, shares_of(rows, loss)), THETA_BITS)
  share <- if (form == "alone") ALL else share_of(rows$n, S * p)
  sums <- passed(theta, share)
  if (share < ALL && abs(sums$sampled / sums$weight - share / ALL) > share / ALL / 8) {
    share <- ALL  # few different rows: no share stands for all
    sums <- passed(theta, share)
  }
  last <- Inf
  before <- 0
  for (step in seq_len(MOST_STEPS)) {
    gradient <- as.vector(t(mean_gradient(sums, loss, ridge, theta)))  # score by score
    if (all(abs(gradient) <= POWER(17 - loss_bits(loss)) * rows$n / sums$weight)) return(theta)
    if (!is.null(sums$information)) {
      points <- list()  # since the information was made
      precondition <- preconditioner_of(sums, loss, ridge, S, p, form)
    }
    points <- utils::tail(c(points, list(list(theta = as.vector(t(theta)), gradient = gradient))),
                          MEMORY + 1)
    move <- -remembered(points, precondition)
    size <- max(abs(move))
    units <- on_grid(move, THETA_BITS)
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
      there <- theta + matrix(on_grid(length * move, THETA_BITS), S, byrow = TRUE)
      if (any(abs(there) >= MAX_THETA * 2^THETA_BITS)) {
        if (length < POWER(-20))
          refuse("coefficients of standardised columns must stay below 16, but these rows drive ",
                 "them further: some column nearly separates the classes. Use a larger ridge.")
        length <- length / 2
        next
      }
      again <- if (form == "pairs") length * size > LARGE_STEP
               else form == "classes" && (length * size > 1 || length(points) == MOST_BY_CLASS)
      sums <- passed(there, if (steers_badly || again) share else 0)
      ahead <- as.vector(t(mean_gradient(sums, loss, ridge, there)))
      if (in_order(ahead * move) <= -slope / 4) break
      length <- length / 2
      if (length < POWER(-20))
        refuse("the fit must converge, but its steps do not shrink. Use a larger ridge.")
    }
    before <- max(abs(there - theta))
    theta <- there
  }
  refuse("the fit must converge, but ", MOST_STEPS, " steps were not enough. Use a larger ridge.")
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

# Shifts of the cells, which are drawn once for each design.
DRAWN <- new.env()
shifts_of <- function(design) {
  n <- length(design$widths)
  key <- paste(n, design$seed)
  if (is.null(DRAWN[[key]])) assign(key, uniforms(design$seed, "cells", n), DRAWN)
  DRAWN[[key]]
}
offsets_of <- function(design, z) (z / widths_of(design) + shifts_of(design)) - sketch_of(design)
decoded <- function(design, codes) {
  parts <- POWER(design$bits)
  ((codes * parts + sketch_of(design) * parts) / parts - shifts_of(design)) * widths_of(design)
}

# --- constants of a lab's own --------------------------------------------------------------------
# Which coded numbers are constants of a score, and which labs agree on: all, or all but these.
is_constant <- function(design)
  rep(seq_len(n_columns(design)) == 1, n_scores(design$loss))
has_local_constant <- function(design) identical(design$constant, "local")
is_agreed <- function(design)
  if (has_local_constant(design)) !is_constant(design) else rep(TRUE, length(design$widths))

# Codes of the offsets of a lab's numbers; those of constants of its own are 0.
codes_at <- function(design, offsets) ifelse(is_agreed(design), floor(offsets + 0.5) + 0, 0)

# Coefficients that codes stand for, a row for each score.
decoded_theta <- function(design, codes) theta_of(design$coordinates, decoded(design, codes))

# Slopes times a factor, in whole units, with constants of 0.
slopes_times <- function(theta, factor = 1) {
  slopes <- on_grid(theta * factor, THETA_BITS)
  slopes[, 1] <- 0
  slopes
}

# A fit without a ridge; the words say why there is none.
bounded_fit <- function(rows, loss, ...) {
  shares_of(rows, loss)
  tryCatch(fit(rows, loss, 0), replearn_refusal = function(problem) refuse(...))
}

# Constants at which the mean loss of rows is smallest, given slopes in whole units.
fit_constants <- function(rows, loss, slopes) {
  scored <- list(X = matrix(ONE, rows$n, 1), targets = rows$targets, weights = rows$weights,
                 offset = scores_of(rows, slopes), n = rows$n)
  bounded_fit(scored, loss, "the constant must have a bounded fit beside the model's slopes, got ",
              "none: scores of these rows lie far away from the outcomes. Check units and the ",
              "target's coding.")[, 1]
}

# The factor on the slopes of one score at which the mean loss of rows is smallest, as text.
fit_factor <- function(rows, loss, slopes) {
  along <- on_grid(scores_of(list(X = rows$X), slopes), 10)  # divided by 4: scores reach 16
  scored <- list(X = cbind(ONE, pmin(pmax(along, -MAX_ROW), MAX_ROW)), targets = rows$targets,
                 weights = rows$weights, offset = rows$offset, n = rows$n)
  theta <- bounded_fit(scored, loss, "the factor on the slopes must be below 4, but these rows drive ",
                       "it further. Use the constant alone, or get more rows.")
  thousandths(theta[1, 2] * POWER(-28))
}

# A factor as files have it.
thousandths <- function(factor) {
  whole <- floor(factor * 1000 + 0.5)
  if (whole < 1)
    refuse("the factor on the slopes must be positive, got ", sprintf("%.3g", factor), ": the model ",
           "ranks these rows the wrong way round, and no factor mends that. Check the target's ",
           "coding, or fit a model of your own.")
  number_texts(whole / 1000)
}

# Constants of these rows beside the slopes of codes; NULL where labs agree on constants.
local_constants <- function(design, codes, rows)
  if (has_local_constant(design))
    fit_constants(rows, design$loss, slopes_times(decoded_theta(design, codes)))

# Refuse too few events: rows of a class, events of counts, or rows of numbers.
check_events <- function(rows, loss, n_fitted) {
  needed <- 10 * n_fitted
  fewest <- switch(family_of(loss), gaussian = rows$n, poisson = sum(rows$targets),
                   min(tabulate(rows$targets + 1, n_scores(loss) + 1)))
  what <- switch(family_of(loss), gaussian = "rows", poisson = "events", "rows of each class")
  if (fewest < needed)
    refuse("an update needs at least ", needed, " ", what, ", got ", counted(round(fewest)),
           ": fewer say too little about a base risk, and would show single patients. Get more rows.")
}

# A model with a base risk of these rows and, with `slope`, one factor on all slopes; its own slopes
# are kept otherwise. The same bytes as of Python's `replearn update`.
update_model <- function(object, data, slope = FALSE, ...) {
  parent <- if (is.character(object)) read_model(object) else object
  if (!inherits(parent, "replearn_model"))
    refuse("update takes the original's model, got something else. Pass found$original, or the path ",
           "of the original's model file.")
  design <- parent$design
  loss <- design$loss
  if (slope && n_scores(loss) > 1)
    refuse("slope must be FALSE for ", n_scores(loss) + 1, " classes, whose scores have no one factor ",
           "in common, got TRUE. Update the constants alone.")
  rows <- rows_of(design, data, ...)
  check_events(rows, loss, if (slope) 2 else 1)

  theta <- decoded_theta(design, parent$codes)
  factor <- if (is.null(parent$recalibration)) "1" else parent$recalibration$factor
  if (slope) {
    further <- fit_factor(rows, loss, slopes_times(theta, decimals(factor)))
    factor <- thousandths(decimals(factor) * decimals(further))
  }
  constants <- fit_constants(rows, loss, slopes_times(theta, decimals(factor)))
  make_model(design, parent$codes, recalibration = list(
    parent = parent$fingerprint, constants = as.list(constants), factor = factor))
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
  if (any(nchar(texts) > MAX_TEXT, na.rm = TRUE)) odd_cells(name, "texts of more than 4,096 characters")
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
records_of <- function(path, bytes, delimiter, d) {
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
  given <- lines
  starts <- integer(0)  # of records of several lines
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
    starts <- c(starts, i)
    if (nchar(lines[i], "bytes") > 2^22)
      refuse(path, ", line ", line_number(i, given, ends), ", begins a row that is longer than 4 MB. ",
             "Check the quotes.")
  }
  records <- lines[nzchar(lines)]
  if (length(starts) && n_lines_of(bytes, is_return) > length(records)) {
    strays <- starts[swallows_rows(lines[starts], delimiter, d)]
    if (length(strays)) refuse_stray(path, strays[1], given, ends)
  }
  records
}

refuse_stray <- function(path, line, lines, ends) {
  refuse(path, ", line ", line_number(line, lines, ends), ", must not begin a quote that takes the ",
         "rows after it into one cell. Remove the stray quote, or write it twice.")
}

# As people count: a line end of two signs is one.
line_number <- function(line, lines, ends) {
  before <- seq_len(max(0, line - 2))
  n_pairs <- sum(ends[before] == "\r" & ends[before + 1] == "\n" & lines[before + 1] == "")
  counted(line - n_pairs)
}

# Lines with something on them, by the sign of a line feed alone.
n_lines_of <- function(bytes, is_return) {
  line <- cumsum(bytes == as.raw(10) & !is_return)
  length(unique(line[!bytes %in% as.raw(c(9:13, 32))]))
}

# Whether a cell of each record holds rows: lines with as many delimiters as a row has, inside of it,
# or its first and its last one.
swallows_rows <- function(records, delimiter, d) {
  holds_rows <- function(cell, before, full) {
    lines <- strsplit(paste0(cell, "\n."), "\r\n|\r|\n", perl = TRUE)[[1]]
    lines <- head(lines, -1)
    n <- nchar(gsub(sprintf("[^%s]", d), "", lines, perl = TRUE))
    last <- length(n)
    last > 1 && (full %in% n[-c(1, last)] || (before + n[1] == full && n[last] == before))
  }
  vapply(split_records(records, delimiter, d), function(cells) {
    full <- length(cells) - 1
    full >= 2 && any(mapply(holds_rows, cells, seq_along(cells) - 1, full))
  }, NA)
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
    refuse(place, " must have ", quoted(absent), "; it has ", quoted(names), alike(absent, names),
           ". Rename the columns, or use the study of this table.")
  names
}

# Which absent columns differ in case or spaces only.
alike <- function(absent, names) {
  near <- names[match(tolower(trimmed(absent)), tolower(trimmed(names)))]
  pairs <- paste0("'", absent, "' is '", near, "' there")[!is.na(near)]
  if (length(pairs)) paste0(" (", paste(head(pairs, 8), collapse = ", "), ": case and spaces count)")
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
  records <- records_of(data, bytes, delimiter, d)
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
  one <- if (is_rounded) ONE else 1
  put <- if (is_rounded) function(x) floor(x * ONE + 0.5) else identity
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
    new <- if (is_rounded) floor(whole / ONE + 0.5) else whole
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
  if (sum(!startsWith(as.character(unlist(column$levels)), "(")) < 3) MOST_UNKNOWN else 1 / 3

# Stop at a table that is coded differently from the study.
refuse_unknown <- function(encoding, encoded, n) {
  if (n < FEWEST_ROWS) return(invisible())
  usual <- vapply(encoding$columns, function(column)
    if (is.null(column$folded)) 0 else decimals(column$folded), 0)
  known <- n - encoded$missing
  most <- ifelse(usual > 0, usual + (1 - usual) / 2, vapply(encoding$columns, most_unknown, 0))
  odd <- encoded$odd > most * known + 3 * sqrt(usual * (1 - usual) * known)
  gaps <- !odd & !vapply(encoding$columns, has_missing_term, TRUE) & encoded$missing > MOST_MISSING * n
  bad <- which(odd | gaps)
  if (!length(bad)) return(invisible())
  what <- vapply(head(bad, 5), function(i) if (gaps[i]) sprintf(paste0(
    "in '%s' %s of %s cells (%.1f%%) are missing, where the study has no coefficient for gaps"),
    encoding$columns[[i]]$name,
    counted(encoded$missing[i]), counted(n), 100 * encoded$missing[i] / n) else sprintf(
    "in '%s' %s of %s cells (%.1f%%) %s", encoding$columns[[i]]$name, counted(encoded$odd[i]),
    counted(known[i]), 100 * encoded$odd[i] / known[i],
    if (is_number_column(encoding$columns[[i]])) "are no numbers (decimal commas?)"
    else "have levels that the study does not know"), "")
  refuse("the table is coded differently from the study: ", paste(what, collapse = "; "),
         ". Recode them as the study has them (decimal= and thousands= may help), fill gaps in, ",
         "or ask for a study without these columns.")
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
    shown <- head(names(odd)[odd >= LEAST_COUNT], 4)
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
    remedy <- if (place == "the event" && any(is.nan(values)))
      "Write 1 where it was seen and 0 where the time is censored." else
      "Fill in or leave out such rows."
    refuse(place, " must hold a number in every row, got ", what, " in ", n, " rows. ", remedy)
  }
  if (any(values < least))
    refuse(place, " must hold numbers of at least ", least, ", got smaller ones in ",
           counted(sum(values < least)), " of ", n, " rows. Check the column.")
  values
}

targets_of <- function(design, table) {
  loss <- design$loss
  if (!is.null(design$classes)) return(class_numbers(table$levels[[design$target]], design$classes))
  least <- if (family_of(loss) == "poisson") 0 else -Inf
  y <- checked_numbers(table$numbers[[design$target]], "the target", least)
  if (family_of(loss) == "poisson") return(pmin(y, POWER(loss$cap_bits)))
  units <- (y - decimals(loss$centre)) / decimals(loss$spread)
  on_grid(pmin(pmax(units, -16), 16), WEIGHT_BITS) * POWER(-WEIGHT_BITS)
}

# Weights on their grid, scaled by the smallest power of two that exceeds them; NULL if all are 1.
weights_of <- function(design, table, targets) {
  if (is.null(design$weights) && is.null(design$class_weight)) return(NULL)
  mass <- if (is.null(design$weights)) rep(1, table$n)
    else checked_numbers(table$numbers[[design$weights]], "sample_weight", 0)
  if (!is.null(design$class_weight)) mass <- mass * decimals(unlist(design$class_weight))[targets + 1]
  if (!any(mass > 0)) refuse("sample_weight must not be zero in all rows. Pass some that are positive.")
  scale <- min(POWERS[POWERS > max(mass)])
  ifelse(mass > 0, pmax(on_grid(mass / scale, WEIGHT_BITS), 1), 0) * POWER(-WEIGHT_BITS)
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

# --- survival ------------------------------------------------------------------------------------
INTERVAL <- "(interval)"

# What intervals are called.
interval_names <- function(cuts) {
  starts <- c("0", cuts)
  c(if (length(cuts)) paste(head(starts, -1), "to", cuts), paste("after", tail(starts, 1)))
}

# Time that each row spends in each interval.
time_at_risk <- function(times, cuts) {
  starts <- c(0, decimals(cuts))
  ends <- c(starts[-1], Inf)
  spent <- outer(times, ends, pmin) - rep(starts, each = length(times))
  matrix(pmax(spent, 0), length(times))
}

checked_times <- function(times) {
  times <- checked_numbers(times, "the time")
  if (any(times <= 0))
    refuse("the time must be positive in every row, got ", counted(sum(times <= 0)), " rows with 0 or ",
           "less. Leave them out, or add half of the smallest unit.")
  times
}

checked_events <- function(events) {
  events <- checked_numbers(events, "the event")
  if (!all(events %in% c(0, 1))) {
    distinct <- sort(unique(events))
    remedy <- "Recode it so, such as 1 and 2 of R's tables as 0 and 1."
    if (length(distinct) > 2)
      remedy <- paste("Competing events (a death from something else) are no censoring: they need a",
                      "model for each, which a study does not have. Count all of them as the event,",
                      "or study one outcome at a fixed time with a logistic model.")
    refuse("the event must be 1 where it was seen and 0 where the time is censored, got ",
           paste(head(distinct, 5), collapse = ", "), ". ", remedy)
  }
  events
}

# A table with a row for each interval in which somebody was at risk.
rows_at_risk <- function(design, data, ...) {
  loss <- design$loss
  columns <- design$encoding$columns
  design$encoding$columns <- columns[names_of(columns) != INTERVAL]
  table <- design_table(design, data, c(loss$time, loss$event), NULL, ...)
  cuts <- as.character(unlist(loss$cuts))
  exposure <- time_at_risk(checked_times(table$numbers[[loss$time]]), cuts)
  events <- checked_events(table$numbers[[loss$event]])

  spent <- which(t(exposure > 0), arr.ind = TRUE)  # intervals of the first row first
  interval <- spent[, 1]
  row <- spent[, 2]
  table <- list(n = length(row), numbers = lapply(table$numbers, `[`, row),
                levels = lapply(table$levels, `[`, row))
  table$levels[[INTERVAL]] <- interval_names(cuts)[interval]
  table$numbers[[design$offset]] <- exact_log(exposure[cbind(row, interval)])
  # an event belongs to the last interval of its row
  is_last <- c(row[-1] != row[-length(row)], TRUE)
  table$numbers[[design$target]] <- events[row] * is_last
  table
}

# Probability that the event comes within each horizon: a row for each row, a column for each.
risks_of <- function(model, link, horizons) {
  loss <- model$design$loss
  is_interval <- startsWith(colnames(model$theta), paste(INTERVAL, "= "))
  later <- c(0, model$theta[1, is_interval])
  spent <- time_at_risk(checked_numbers(horizons, "horizon", 0), as.character(unlist(loss$cuts)))
  risks <- -expm1(-outer(exp(link), drop(spent %*% exp(later))))
  if (length(horizons) > 1) risks else risks[, 1]
}

# --- a lab's rows --------------------------------------------------------------------------------
# The table of a design, with its target, weights and offset.
lab_table <- function(design, data, ...) {
  if (design$loss$kind == "hazard") return(rows_at_risk(design, data, ...))
  has_classes <- !is.null(design$classes)
  design_table(design, data, c(design$weights, design$offset, if (!has_classes) design$target),
               if (has_classes) design$target, ...)
}

n_persons <- function(design, table) {
  if (design$loss$kind != "hazard") return(NULL)
  columns <- design$encoding$columns
  sum(table$levels[[INTERVAL]] == columns[[which(names_of(columns) == INTERVAL)]]$reference)
}

# A lab's rows as the fit takes them: X with the constant, targets, weights and offset.
rows_of <- function(design, data, ...) {
  has_classes <- !is.null(design$classes)
  table <- lab_table(design, data, ...)
  targets <- targets_of(design, table)
  weights <- weights_of(design, table, targets)
  offset <- if (!is.null(design$offset)) checked_numbers(table$numbers[[design$offset]], "offset")
  encoded <- encode(design$encoding, table)
  refuse_unknown(design$encoding, encoded, table$n)
  X <- encoded$X
  if (!is.null(design$directions))
    X <- pmin(pmax(floor(tcrossprod(X, directions_of(design)) * POWER(-ROW_BITS) + 0.5), -MAX_ROW),
              MAX_ROW)
  kept <- if (is.null(weights)) rep(TRUE, table$n) else weights > 0
  counts <- if (has_classes) tabulate(targets[kept] + 1, length(design$classes))
  rows <- list(X = cbind(ONE, X)[kept, , drop = FALSE], targets = targets[kept],
               weights = weights[kept], offset = offset[kept], n = sum(kept),
               n_beyond = n_beyond(design, table), n_persons = n_persons(design, table))

  # the same in a range that holds all numbers, with its design
  reaching <- function() {
    wider <- reaching_design(design, table)
    rows$X <- cbind(ONE, encode(wider$encoding, table)$X)[kept, , drop = FALSE]
    rows$targets <- targets_of(wider, table)[kept]
    list(design = wider, rows = rows)
  }
  c(rows, list(reaching = reaching, findings = function(study) findings_of(study, table, counts)))
}

# How far the numbers of a column go, in spreads from its centre.
reach_of <- function(column, values) {
  values <- values[is.finite(values)]
  max(0, abs(values - decimals(column$centre))) / decimals(column$spread)
}

# Numbers beyond the ends of the study's range.
n_beyond <- function(design, table) {
  columns <- Filter(is_number_column, design$encoding$columns)
  sum(vapply(columns, function(column) {
    away <- abs(table$numbers[[column$name]] - decimals(column$centre))
    sum(away > 4 * decimals(column$spread), na.rm = TRUE)
  }, 0))
}

# A design whose range holds all numbers of a table; up to 500 spreads, and of columns without hats.
reaching_design <- function(design, table) {
  wider <- function(spread, times) sprintf("%.3g", decimals(spread) * times * 1.006)
  design$encoding$columns <- lapply(design$encoding$columns, function(column) {
    if (!is_number_column(column) || length(column$knots)) return(column)
    reach <- reach_of(column, table$numbers[[column$name]])
    if (reach > 4 && reach <= 500) column$spread <- wider(column$spread, reach / 4)
    column
  })
  if (design$loss$kind == "gaussian") {
    reach <- reach_of(design$loss, table$numbers[[design$target]])
    if (reach > 16) design$loss$spread <- wider(design$loss$spread, reach / 16)
  }
  design
}

# --- files ---------------------------------------------------------------------------------------
read_json <- function(path) {
  text <- rawToChar(read_bytes(path))
  Encoding(text) <- "UTF-8"
  tryCatch(jsonlite::parse_json(text), error = function(e)
    refuse(path, " must be JSON, got something else. Get the file anew."))
}

# A file of replearn, whose fingerprint must be that of its content.
read_fingerprinted <- function(path, format) {
  content <- read_json(path)
  if (!identical(content$format, format) || !identical(as.double(content$version), 1))
    refuse(path, " must be a file of the format ", format, ", version 1. Check the path.")
  said <- content$fingerprint
  beside <- content["provenance"]
  content[c("fingerprint", "provenance")] <- NULL
  fingerprint <- fingerprint_of(content)
  if (!is.null(said) && !identical(said, fingerprint))
    refuse(path, ": fingerprint must be ", fingerprint, ", got ", said, ": it was altered. Get it ",
           "anew.")
  c(content, list(fingerprint = fingerprint), beside)
}

# The same for a study or a model.
read_document <- function(path, format) {
  content <- read_fingerprinted(path, format)
  design <- content$design
  if (!identical(design$kind, "glm"))
    refuse(path, " must be of a generalised linear model, got a different one. Use Python for it.")
  n <- n_scores(design$loss) * n_columns(design)
  for (key in c("widths", if (design$bits > 0) "sketch"))
    if (length(design[[key]]) != n) refuse(path, ": ", key, " must be ", n, " numbers. Get it anew.")
  content
}

n_columns <- function(design) {
  1 + if (is.null(design$directions)) length(term_names(design$encoding)) else length(design$directions)
}

read_study <- function(path)
  structure(check_study(path, read_document(path, "replearn/study")), class = "replearn_study")

read_model <- function(path) {
  content <- read_document(path, "replearn/model")
  design <- content$design
  codes <- as.double(unlist(content$codes))
  if (length(codes) != length(design$widths))
    refuse(path, ": codes must be as many as widths. Get it anew.")
  if (any(codes[!is_agreed(design)] != 0))
    refuse(path, ": codes must be 0 for constants that each lab fits by itself. Get it anew.")
  constants <- unlist(content$provenance$constants)
  for (some in list(constants, unlist(content$recalibration$constants)))
    if (!is.null(some) && !(is.numeric(some) && length(some) == n_scores(design$loss)))
      refuse(path, ": constants must be ", n_scores(design$loss), " whole numbers. Get it anew.")
  make_model(design, codes, constants, content$recalibration, content$fingerprint)
}

# What the fingerprint is of.
model_content <- function(design, codes, recalibration = NULL)
  c(list(format = "replearn/model", version = 1, design = design, codes = as.list(codes)),
    if (!is.null(recalibration)) list(recalibration = recalibration))

# A model; `constants` are this lab's own, in whole units, where its design leaves them to labs.
make_model <- function(design, codes, constants = NULL, recalibration = NULL,
                       fingerprint = fingerprint_of(model_content(design, codes, recalibration))) {
  theta <- fitted_theta(design, codes, constants, recalibration)
  if (!is.null(theta) && !is.null(design$directions))
    theta <- cbind(theta[, 1], theta[, -1, drop = FALSE] %*% directions_of(design) * POWER(-12))
  if (!is.null(theta)) dimnames(theta) <- score_names(design)
  structure(class = "replearn_model", list(
    design = design, codes = codes, theta = theta,
    coefficients = if (!is.null(theta)) per_unit(design, theta),
    constants = constants, recalibration = recalibration, fingerprint = fingerprint))
}

# Coefficients of the columns of the fit; NULL while a constant of a lab's own is not known.
fitted_theta <- function(design, codes, constants, recalibration) {
  theta <- decoded_theta(design, codes)
  if (!is.null(recalibration)) {
    theta <- theta * decimals(recalibration$factor)
    constants <- unlist(recalibration$constants)
  } else if (!has_local_constant(design)) {
    return(theta)
  }
  if (!is.null(constants)) cbind(as.double(constants) * POWER(-THETA_BITS), theta[, -1, drop = FALSE])
}

# A model that predicts.
with_constant <- function(model) {
  if (is.null(model$theta))
    refuse("the model must have a constant to predict, but its study leaves the constant to each ",
           "lab, and this file has none. Fit yours: update(model, data).")
  model
}

# Write a model file: the same bytes as Python, whole or not at all.
# Stop before a file of a different kind is lost, or a private one becomes public.
check_replaced <- function(path) {
  if (!file.exists(path) || file.size(path) == 0) return(invisible())
  content <- tryCatch(read_json(path), error = function(e) NULL)
  is_model <- is.list(content) && identical(content$format, "replearn/model") &&
    is.list(content$design) && identical(content$design$kind, "glm")
  if (!is_model)
    refuse(path, " is there and is no replearn/model/glm. Name a new file, or delete it first.")

  # what a new file would grant to others: nothing where the user keeps all files private
  granted <- as.octmode("066") & !as.octmode(as.character(Sys.umask(NA)))
  if (granted != 0 && (file.mode(path) & as.octmode("077")) == 0)
    refuse(path, " is private, and what is written would not be. Name a new file, or delete it ",
           "first.")
}

save_model <- function(model, path) {
  if (!is.list(model) || is.null(model$codes) || is.null(model$design))
    refuse("model must be that of a replication, found$model, got something else.")
  check_replaced(path)
  content <- c(model_content(model$design, model$codes, model$recalibration),
               fingerprint = model$fingerprint)
  if (!is.null(model$constants))
    content$provenance <- list(constants = as.list(model$constants))
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

coef_model <- function(object, ...) plain_coefficients(with_constant(object)$coefficients)

# --- this lab's own estimates --------------------------------------------------------------------
# Estimates without the ridge and their robust covariance (HC3, or what the model itself predicts if
# that is larger), per unit. For reading, so R may add up as it likes.
own_estimates <- function(design, rows, theta) {
  if (length(theta) > MOST_STEERED || !is.null(design$directions)) return(NULL)

  # numbers beyond the study's range as they are: the same coefficients in wider units
  n_beyond <- rows$n_beyond
  wider <- rows$reaching()
  here <- per_unit(design, diag(1, ncol(theta)))
  there <- per_unit(wider$design, diag(1, ncol(theta)))
  if (design$loss$kind == "gaussian") {
    here[, 1] <- here[, 1] - decimals(design$loss$centre)
    there[, 1] <- there[, 1] - decimals(design$loss$centre)
  }
  theta <- floor(theta %*% here %*% solve(there, tol = 0) + 0.5)
  stretch <- diag(here) / diag(there)
  design <- wider$design
  rows <- wider$rows
  p <- ncol(theta)
  at <- moments_of(rows, design$loss, theta, is_wide = FALSE)
  repeated <- repeated_terms(at$information[seq_len(p), seq_len(p)])
  fitted <- without_ridge(rows, design$loss, theta, stretch, repeated)
  influence <- influence_of(rows, design$loss, fitted)

  # from encoded columns to units
  turn <- per_unit(design, diag(1, p))
  if (design$loss$kind == "gaussian") turn[, 1] <- turn[, 1] - decimals(design$loss$centre)
  turn <- kronecker(diag(1, nrow(theta)), turn)
  seen <- crossprod(influence$seen %*% turn)
  likely <- colSums(influence$second(turn)) * influence$dispersion
  larger <- ifelse(diag(seen) > 0, sqrt(pmax(1, likely / diag(seen))), 0)
  covariance <- seen * outer(larger, larger)
  diag(covariance) <- pmax(diag(seen), likely)

  estimate <- per_unit(design, fitted$beta)
  if (design$loss$kind == "hazard") {
    cox <- cox_estimates(design, rows, repeated)
    if (!is.null(cox)) {
      estimate <- per_unit(design, cox$theta)
      slopes <- cox$slopes
      turn <- turn[slopes, slopes, drop = FALSE]
      covariance[slopes, slopes] <- t(turn) %*% cox$covariance %*% turn
      repeated[cox$unknown] <- TRUE
    }
  }
  dimnames(estimate) <- score_names(design)

  # as in R's own models
  is_absent <- rep(repeated, nrow(theta))
  estimate[, repeated] <- NA
  covariance[is_absent, ] <- covariance[, is_absent] <- NA
  labels <- names_of_scores(estimate)
  dimnames(covariance) <- list(labels, labels)
  list(estimate = estimate, covariance = covariance, n_rows = rows$n, n_beyond = n_beyond)
}

# Coefficients of which earlier ones leave nothing: columns that are 0 in all rows here, or follow from
# those before them. What earlier ones leave is a pivot of elimination.
repeated_terms <- function(information) {
  before <- diag(information)
  repeated <- rep(FALSE, length(before))
  for (j in seq_along(before)) {
    pivot <- information[j, j]
    repeated[j] <- pivot <= 1e-5 * before[j]
    rest <- seq_len(length(before) - j) + j
    if (!repeated[j]) information[rest, rest] <- information[rest, rest, drop = FALSE] -
      outer(information[rest, j], information[j, rest]) / pivot
  }
  repeated
}

# Hazard ratios of Cox's partial likelihood in place of those that intervals give, and the baseline
# that follows: events over what they expect in each interval. NULL with too many events for that, or
# if steps do not end.
cox_estimates <- function(design, rows, repeated) {
  if (!(sum(rows$targets) > 0 && sum(rows$targets) <= 5000)) return(NULL)
  is_interval <- startsWith(term_names(design$encoding), paste(INTERVAL, "= "))
  is_interval <- is_interval & seq_along(is_interval) <=
    length(is_interval) - length(design$encoding$products)
  terms <- rows$X[, -1, drop = FALSE] / 4096
  interval <- 1 + drop(terms[, is_interval, drop = FALSE] %*% seq_len(sum(is_interval)))
  X <- terms[, !is_interval, drop = FALSE]
  time <- exp(rows$offset)
  pinned <- PINNED * rows$n * repeated[-1][!is_interval]
  # rows of a person follow each other, the first interval first
  fitted <- cox_fit(X, interval, time, rows$targets, cumsum(interval == 1), pinned)
  if (is.null(fitted)) return(NULL)

  at <- factor(interval, seq_len(1 + sum(is_interval)))
  events <- tapply(rows$targets, at, sum, default = 0)
  expected <- tapply(time * exp(drop(X %*% fitted$beta)), at, sum, default = 0)
  hazards <- log(pmax(events, 1) / pmax(expected, 1e-300))
  theta <- numeric(1 + length(is_interval))
  baseline <- c(1, 1 + which(is_interval))
  theta[baseline] <- c(hazards[1], hazards[-1] - hazards[1])
  theta[1 + which(!is_interval)] <- fitted$beta
  # an interval without an event has no baseline, nor has any if that is the first
  list(theta = matrix(theta, 1), slopes = 1 + which(!is_interval), covariance = fitted$covariance,
       unknown = baseline[events == 0 | events[1] == 0])
}

# Rows at risk, with Efron's way of ties; the covariance is the sandwich of residuals by person, or the
# model's if larger.
cox_fit <- function(X, interval, time, event, persons, pinned) {
  left <- 0.01 + pinned
  strata <- lapply(split(seq_along(time), interval), function(rows) rows[order(-time[rows])])
  derivatives <- function(beta) {
    link <- drop(X %*% beta)
    link <- link - max(link)  # a common factor changes nothing
    weight <- exp(link)
    value <- sum(link[event > 0])
    scores <- 0 * X
    information <- diag(left, ncol(X))  # what is left of a ridge, in rows
    for (rows in strata) {
      part <- of_stratum(X[rows, , drop = FALSE], weight[rows], time[rows], event[rows])
      scores[rows, ] <- part$scores
      information <- information + part$information
      value <- value - part$logs
    }
    list(value = value - sum(left * beta^2) / 2, scores = scores, information = information)
  }

  # Newton's steps, halved where the likelihood falls
  before <- beta <- numeric(ncol(X))
  highest <- -Inf
  is_done <- FALSE
  for (step in 1:50) {
    at <- derivatives(beta)
    if (!isTRUE(at$value >= highest - 1e-9 * abs(at$value))) {
      beta <- (beta + before) / 2
      next
    }
    gradient <- colSums(at$scores) - left * beta
    move <- solve(at$information, gradient, tol = 0)
    if (is_done <- sum(gradient * move) < 1e-9) break
    before <- beta
    highest <- at$value
    beta <- beta + move
  }
  if (!is_done) return(NULL)
  inverse <- solve(at$information, tol = 0)
  seen <- crossprod(rowsum(at$scores, persons) %*% inverse)
  larger <- sqrt(pmax(diag(seen), diag(inverse)) / diag(seen))
  list(beta = beta, covariance = seen * outer(larger, larger))
}

# Score residuals and information of rows that enter together, the longest time first, and what they
# take from the logarithm of the likelihood.
of_stratum <- function(X, w, time, event) {
  n <- length(w)
  sums <- function(values) matrix(apply(values, 2, cumsum), nrow(values))
  at_risk <- cumsum(w)
  at_risk_x <- sums(w * X)
  hazard <- dropped <- numeric(n)  # what rows collect at each event, less at their own
  hazard_x <- dropped_x <- mean_at <- 0 * X
  squares <- matrix(0, ncol(X), ncol(X))
  logs <- 0
  for (here in split(which(event > 0), -time[event > 0])) {
    last <- max(which(time >= time[here[1]]))
    tied_x <- colSums(w[here] * X[here, , drop = FALSE])
    share <- (seq_along(here) - 1) / length(here)
    total <- at_risk[last] - share * sum(w[here])
    means <- (rep(at_risk_x[last, ], each = length(here)) - outer(share, tied_x)) / total
    logs <- logs + sum(log(total))
    hazard[last] <- hazard[last] + sum(1 / total)
    hazard_x[last, ] <- hazard_x[last, ] + colSums(means / total)
    dropped[here] <- sum(share / total)
    dropped_x[here, ] <- rep(colSums(share / total * means), each = length(here))
    mean_at[here, ] <- rep(colMeans(means), each = length(here))
    squares <- squares + crossprod(means)
  }
  # a row collects the hazard of all events up to its time: those that stand after it, and its own
  back <- rev(seq_len(n))
  collected <- cumsum(hazard[back])[back] - dropped
  collected_x <- sums(hazard_x[back, , drop = FALSE])[back, , drop = FALSE] - dropped_x
  scores <- event * (X - mean_at) - w * (X * collected - collected_x)
  information <- crossprod(X * (w * collected), X) - squares
  list(logs = logs, scores = scores, information = information)
}

# Names of the rows (scores) and columns (terms) of coefficients.
score_names <- function(design)
  list(if (n_scores(design$loss) > 1) label_texts(design$classes)[-1],
       c("(constant)", term_names(design$encoding)))

# One name for each coefficient, score by score.
names_of_scores <- function(matrix) {
  if (nrow(matrix) == 1) return(colnames(matrix))
  as.vector(outer(colnames(matrix), rownames(matrix), paste, sep = ", "))
}

PINNED <- 1024  # a ridge that keeps coefficients at 0

# Where Newton's steps end once hardly a ridge is left: a hundredth of a row.
without_ridge <- function(rows, loss, theta, stretch, repeated) {
  q <- nrow(theta)
  p <- ncol(theta)
  mass <- mass_of(rows)
  of_scores <- diag(1, q) - if (q > 1) 1 / (q + 1) else 0
  ridges <- sum(mass) * (0.01 / rows$n / stretch^2 + PINNED * repeated)
  left <- kronecker(of_scores, diag(c(0, ridges[-1]), p))
  stretch <- rep(stretch, q)
  before <- beta <- theta * POWER(-THETA_BITS)
  move <- rep(0, length(beta))
  fall <- 0
  for (step in 1:20) {
    at <- moments_of(rows, loss, on_grid(beta, THETA_BITS), is_wide = FALSE)
    information <- at$information + left
    gradient <- at$gradient + drop(left %*% as.vector(t(beta)))

    # far beyond the lowest point of the last step: half of it
    if (sum(gradient * move) > fall) {
      move <- move / 2
      fall <- fall / 2
      beta <- before + matrix(move, q, byrow = TRUE)
      next
    }
    move <- -solve(information, gradient, tol = 0)
    if (-sum(gradient * move) * rows$n / sum(mass) < 1e-4) break

    # long steps come from columns that nearly separate: one at a time
    move <- move * min(1, 4 / max(abs(move / stretch)))
    fall <- -sum(gradient * move)
    there <- beta + matrix(move, q, byrow = TRUE)
    if (max(abs(as.vector(t(there)) / stretch)) >= 16) break
    before <- beta
    beta <- there
  }
  list(beta = beta, information = information)
}

# What each row does to the coefficients, as it is and as the model predicts it.
influence_of <- function(rows, loss, fitted) {
  q <- nrow(fitted$beta)
  p <- ncol(fitted$beta)
  X <- rows$X / 4096
  mass <- mass_of(rows)
  means <- means_of(loss, scores_of(rows, on_grid(fitted$beta, THETA_BITS)))
  inverse <- solve(fitted$information, tol = 0)
  pulls <- list()
  seen <- misfit <- noise <- 0
  few <- Inf
  for (k in seq_len(q)) {
    own <- (k - 1) * p + seq_len(p)
    missed <- residual(loss, k, means[, k], rows$targets)
    bend <- curvature(loss, k, k, means[, k], means[, k])
    lengths <- rowSums((X %*% solve(fitted$information[own, own], tol = 0)) * X)
    leverage <- pmin(lengths * bend * mass, 0.9)
    pulls[[k]] <- (X %*% inverse[own, ]) * (mass / (1 - leverage))
    seen <- seen + pulls[[k]] * missed
    square <- (missed * mass)^2
    misfit <- misfit + sum(square)
    noise <- noise + sum(bend * mass^2)
    few <- min(few, max(sum(square)^2 / max(sum(square^2), 1e-300), 0.1))
  }

  # counts often vary more than a Poisson law predicts, and numbers have their own variance; classes
  # that are nearly separable have fewer errors than a fit predicts
  dispersion <- misfit / max(noise, 1e-300)
  most <- dispersion * (1 + 3 * sqrt(2 / few) + 10 / few)
  dispersion <- if (most < 1) most else max(1, dispersion)
  second <- function(turn) {  # expected squares, row by row
    turned <- lapply(pulls, function(pull) pull %*% turn)
    if (loss$kind == "gaussian") return(turned[[1]]^2)
    squares <- Reduce(`+`, lapply(seq_len(q), function(k) means[, k] * turned[[k]]^2))
    if (!loss$kind %in% c("bernoulli", "multinomial")) return(squares)
    squares - Reduce(`+`, lapply(seq_len(q), function(k) means[, k] * turned[[k]]))^2
  }
  list(seen = seen, second = second, dispersion = dispersion)
}

NO_ESTIMATES <- "No standard errors: own estimates are for at most 500 coefficients of single columns."

own_of <- function(object) {
  if (is.null(object$own))
    refuse("own estimates are for at most ", MOST_STEERED, " coefficients of single columns. Drop ",
           "columns of many levels, or fit them by glm.")
  object$own
}

# A vector, or for more than two classes a matrix with a row for each but the first.
plain_coefficients <- function(estimate) if (nrow(estimate) > 1) estimate else estimate[1, ]

coef_replication <- function(object, ...) plain_coefficients(own_of(object)$estimate)
vcov_replication <- function(object, ...) own_of(object)$covariance

# One row for each coefficient: the shared model beside this lab's own estimate.
frame_replication <- function(x, row.names = NULL, optional = FALSE, level = 0.95, ...) {
  own <- own_of(x)
  estimate <- as.vector(t(own$estimate))
  error <- sqrt(diag(own$covariance))
  reach <- qnorm((1 + level) / 2) * error
  shared <- if (is.null(x$original)) x$model else x$original
  model <- if (is.null(shared)) NA_real_ else as.vector(t(shared$coefficients))
  data.frame(term = colnames(own$covariance), model = model, estimate = estimate,
             standard_error = error, low = estimate - reach, high = estimate + reach,
             row.names = if (is.null(row.names)) seq_along(estimate) else row.names)
}

confint_replication <- function(object, parm, level = 0.95, ...) {
  frame <- frame_replication(object, level = level)
  ends <- as.matrix(frame[c("low", "high")])
  dimnames(ends) <- list(frame$term, paste(format(100 * c(1 - level, 1 + level) / 2, trim = TRUE,
                                                  digits = 3), "%"))
  if (missing(parm)) ends else ends[parm, , drop = FALSE]
}

summary_replication <- function(object, ...)
  structure(list(words = in_words(object), frame = if (!is.null(object$own)) frame_replication(object),
                 size = size_in_words(object), ridge = object$ridge, n_beyond = object$own$n_beyond),
            class = "replearn_summary")

print_summary <- function(x, ...) {
  writeLines(strwrap(x$words$verdict, 78))
  print_items(as_in_r(c(x$words$told, x$words$items, x$words$details)))
  if (is.null(x$frame)) writeLines(NO_ESTIMATES)
  else {
    title <- paste0("This lab's own estimates (", x$size, "), without the ridge")
    print_table(estimates_item(title, x$frame))
    said <- paste0("Intervals are 95%, robust. The shared model has a ridge of ", x$ridge)
    if (x$n_beyond)
      said <- paste0(said, ", and sets ", counted(x$n_beyond), " values beyond the study's range to ",
                     "its ends; own estimates take them as they are")
    writeLines(strwrap(paste0(said, "."), 78))
  }
  invisible(x)
}

# The same as a table in words, each number with three digits.
estimates_item <- function(title, frame) {
  digits <- function(x) ifelse(is.na(x), "", sub("[.]$", "", formatC(x, 3, format = "fg", flag = "#")))
  cells <- cbind(frame$term, vapply(frame[-1], digits, character(nrow(frame))))
  list(title = title, header = c("term", "model", "own", "std. error", "2.5 %", "97.5 %"),
       is_number = c(FALSE, rep(TRUE, 5)), rows = matrix(cells, nrow(frame)))
}

# A forest plot: lines are this lab's own intervals, dots the shared model.
plot_replication <- function(x, ...) {
  shown <- frame_replication(x)
  shown <- shown[!startsWith(shown$term, "(constant)"), ]
  y <- rev(seq_len(nrow(shown)))
  old <- graphics::par(mar = c(4, 14, 1, 1))
  on.exit(graphics::par(old))
  graphics::plot(shown$model, y, xlim = range(0, shown$low, shown$high, finite = TRUE), yaxt = "n",
                 ylab = "", ylim = c(0.5, nrow(shown) + 0.5), pch = 19,
                 xlab = "coefficient per unit: dot of the model, line of this lab's interval", ...)
  graphics::segments(shown$low, y, shown$high, y)
  graphics::abline(v = 0, lty = 2)
  graphics::axis(2, y, shown$term, las = 1, cex.axis = 0.8)
  invisible(x)
}

# --- predictions ---------------------------------------------------------------------------------
# As of a glm: "response" gives probabilities (of the second class; for more classes a column for
# each), means or counts, "link" log-odds or logarithms, and "class" the most probable label. Of a
# survival model "link" gives log-hazards, and "response" the risk within a horizon.
predict_model <- function(object, newdata, type = c("response", "link", "class"), horizon = NULL,
                          ...) {
  type <- match.arg(type)
  loss <- with_constant(object)$design$loss
  is_survival <- loss$kind == "hazard"
  if (is_survival && type == "response" && is.null(horizon))
    refuse("a survival model needs horizon =, the time within which the event may come.")
  if (type == "class" && is.null(object$design$classes))
    refuse("type must be \"response\" or \"link\" for numbers, counts and times, got \"class\".")

  scores <- linear_predictor(object, newdata, ...)
  link <- if (ncol(scores) > 1) scores else scores[, 1]
  if (type == "class")
    return(unlist(object$design$classes[max.col(cbind(0, scores), ties.method = "first")]))
  if (type == "link" || loss$kind == "gaussian") return(link)
  if (is_survival) return(risks_of(object, link, horizon))
  if (loss$kind == "poisson") return(exp(pmin(link, loss$cap_bits * LN2_HI)))
  if (ncol(scores) == 1) return(1 / (1 + exp(-link)))
  every <- cbind(0, scores)
  powers <- exp(every - apply(every, 1, max))
  colnames(powers) <- label_texts(object$design$classes)
  powers / rowSums(powers)
}

# Scores of new rows, a column for each, in the units of the target.
linear_predictor <- function(object, newdata, ...) {
  design <- object$design
  is_survival <- design$loss$kind == "hazard"
  known <- design
  if (is_survival) {  # the first interval
    columns <- design$encoding$columns
    known$encoding$columns <- columns[names_of(columns) != INTERVAL]
    known$offset <- NULL
  }
  table <- design_table(known, newdata, known$offset, NULL, ...)
  if (is_survival)
    table$levels[[INTERVAL]] <- rep(interval_names(unlist(design$loss$cuts))[1], table$n)

  X <- encode(design$encoding, table, is_rounded = FALSE)$X
  scores <- tcrossprod(cbind(1, X), object$theta)
  if (!is.null(known$offset))
    scores <- scores + checked_numbers(table$numbers[[known$offset]], "offset")
  if (design$loss$kind == "gaussian")
    scores <- scores * decimals(design$loss$spread) + decimals(design$loss$centre)
  scores
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

# Questions to ask about a lab's columns: their names ("" is the target), with sentences. `first` are
# columns to look at before a verdict is believed, because agreement says nothing about them.
findings_of <- function(study, table, counts) {
  columns <- study$design$encoding$columns
  rows <- c(list(here = table$n, original = study$n_original, planned = study$n_replication),
            independent_rows(study, table))
  found <- lapply(seq_along(columns), function(i) {
    column <- columns[[i]]
    theirs <- study$profile$columns[[i]]
    look <- if (is_number_column(column)) on_numbers else on_levels
    cells <- (if (is_number_column(column)) table$numbers else table$levels)[[column$name]]
    if (!all(is.na(cells))) return(look(column, theirs, cells, rows))
    words <- "has no value in any row here"
    if (is_odd_constant(rows, usual_gaps(theirs))) first(words) else words
  })
  names <- names_of(columns)
  is_first <- vapply(found, function(words) isTRUE(attr(words, "first")), NA)
  sentences <- setNames(vapply(found, as.character, ""), names)
  sentences <- c(sentences, if (!is.null(counts)) c(on_labels(
    decimals(unlist(study$profile$target)), counts, rows)))
  list(sentences = sentences[nzchar(sentences)], first = names[is_first])
}

first <- function(words) structure(words, first = TRUE)

# Share of missing cells at the original; those of levels are at most one of the shares.
usual_gaps <- function(theirs)
  if (is.null(theirs$shares)) decimals(theirs$missing) else max(0, decimals(unlist(theirs$shares)))

# Persons of a survival study, here and as planned, and their events: each person has one row in the
# first interval. About how many have so many rows follows from its share, in two digits.
people_of <- function(study, rows) {
  if (study$design$loss$kind != "hazard") return(NULL)
  place <- which(names_of(study$design$encoding$columns) == INTERVAL)
  shares <- unlist(study$profile$columns[[place]]$shares)
  planned <- if (length(shares)) {
    about <- study$n_replication * decimals(shares[1])
    unit <- 10^max(0, nchar(sprintf("%.0f", floor(about))) - 2)
    floor(about / unit + 0.5) * unit
  }
  list(here = rows$n_persons, events = sum(rows$targets), planned = planned)
}

# Independent rows for each row, here and at the original: 1 unless rows are at risk. Whoever is at
# risk in an interval was so in all before it; of clusters of m rows sum(m) / sum(m^2) count.
independent_rows <- function(study, table) {
  columns <- study$design$encoding$columns
  place <- which(names_of(columns) == INTERVAL)
  if (!length(place)) return(list(independent_here = 1, independent_there = 1))
  independent <- function(at_risk) {
    squares <- sum((2 * seq_along(at_risk) - 1) * at_risk)
    if (squares > 0) sum(at_risk) / squares else 1
  }
  column <- columns[[place]]
  names <- c(column$reference, as.character(unlist(column$levels)))
  here <- vapply(names, function(name) sum(table$levels[[INTERVAL]] == name), 0)
  list(independent_here = independent(here),
       independent_there = independent(decimals(unlist(study$profile$columns[[place]]$shares))))
}

# Quantiles at 5, 25, 50, 75 and 95 %; the outer ones move inwards until 50 rows are beyond.
quantiles_of <- function(x) {
  if ((n <- length(x)) < 50) return(numeric(0))
  tail <- min(max(0.05, 50 / n), 0.25)
  sort(x)[floor(c(tail, 0.25, 0.5, 0.75, 1 - tail) * (n - 1) + 0.5) + 1]
}

# How far two samples of one population have a share apart, but for 7 in a million.
chance <- function(rows, share, other = 0)
  CHANCE * sqrt(pmax(share * (1 - share), other * (1 - other)) *
               (1 / max(1, rows$independent_here * rows$here) +
                  1 / (rows$independent_there * rows$original)))

# Whether it is no chance that all rows have what this share of the original has.
is_odd_constant <- function(rows, share) {
  share <- max(min(share, 1 - LEAST_APART / max(2 * LEAST_APART, rows$planned)), 1e-300)
  rows$independent_here * rows$here * log(share) < log(1e-4)
}

on_numbers <- function(column, theirs, cells, rows) {
  x <- cells[!is.na(cells)]
  study <- decimals(unlist(theirs$quantiles))
  if (min(x) == max(x))
    return(if (is_odd_constant(rows, if (all(study == x[1])) 1 else 0.95)) first(CONSTANT) else "")
  ours <- quantiles_of(x)
  spread <- decimals(column$spread)
  if (length(ours) && length(study) && is_moved(x, ours, study, spread, rows)) {
    words <- other_unit(ours, study, function(x) max(abs(x - study)[2:4]) / spread)
    if (nzchar(words)) return(first(words))
  }
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
    if (end == 0 && end == x[1] && distinct > 10) is_code <- share < 0.5 && at(0.01) > 0.6 * width
    if (is_code)
      return(sprintf(paste("holds %s in %.1f%% of the rows, far from all other values: is it a code",
                           "for missing values? Then leave such cells empty"), number_texts(end),
                     100 * share))
  }
  ""
}

# Whether a quartile is more than a spread away, and no chance explains that.
is_moved <- function(x, ours, study, spread, rows) {
  sampled <- replace(rows, c("here", "original"), list(length(x), min(rows$original, 16384)))
  share <- c(0.25, 0.5, 0.75)
  below <- vapply(study[2:4], function(q) mean(x < q - spread / 100), 0)
  up_to <- vapply(study[2:4], function(q) mean(x <= q + spread / 100), 0)
  far <- abs(ours - study)[2:4] > spread
  any(far & (below > share + chance(sampled, share) | up_to < share - chance(sampled, share)))
}

# Gaps that the study has no coefficient for are told early, others if they are far more. Of levels
# without a coefficient for gaps no share is stated (NULL): they were too few for one.
on_missing <- function(share, stated, counts_as, rows) {
  usual <- c(stated, 0)[1]
  most <- if (is.null(stated)) min(0.5, LEAST_APART / rows$planned) else max(usual, 10 / rows$original)
  many <- max(if (nzchar(counts_as)) MOST_GAPS else 0.2, most - usual + chance(rows, most, share))
  if (share - usual < many && share < 0.5) return("")
  in_study <- if (is.null(stated)) paste("fewer than", LEAST_APART, "of", counted(rows$planned))
    else sprintf("%.0f%%", 100 * usual)
  words <- sprintf("is missing in %.0f%% of the rows here, in the study in %s", 100 * share, in_study)
  if (nzchar(counts_as)) paste0(words, ": such cells count as ", counts_as) else words
}

# The change of unit or code that brings the lab's quantiles to the study's.
other_unit <- function(ours, study, away) {
  shift <- ours[3] - study[3]
  if (all(ours - study == shift) && shift == floor(shift))
    return(paste0("is ", number_texts(abs(shift)), if (shift > 0) " larger" else " smaller",
                  " throughout than in the study, as if it were coded differently, such as 1 and 2 ",
                  "for 0 and 1"))
  times <- paste0(number_texts(UNITS), " times %s (", names(UNITS), "?)")
  factors <- c(1.8, 1 / 1.8, rbind(UNITS, 1 / UNITS))
  moves <- c(32, -32 / 1.8, rep(0, 2 * length(UNITS)))
  words <- c("in degrees Fahrenheit", "in degrees Celsius",
             rbind(sprintf(times, "as large"), sprintf(times, "smaller")))
  far <- vapply(seq_along(words), function(i) away((ours - moves[i]) / factors[i]), 0)
  best <- which.min(far)
  near <- abs((ours[3] - moves[best]) / factors[best] - study[3]) <= 0.15 * abs(study[3])
  gaps <- abs(ours - study)
  place <- if (gaps[3] != 0) 3 else if (gaps[2] >= gaps[4]) 2 else 4  # the median, unless both are the same
  above <- c("", "three quarters", "half", "a quarter")[place]
  middle <- paste0(above, " of the rows are above ", number_texts(ours[place]), " here, in the study above ",
                   number_texts(study[place]))
  if (far[best] < 0.5 && near && (moves[best] != 0 || study[3] != 0))  # a 0 fits any factor
    return(paste0("seems to have a different unit: it is ", words[best], "; ", middle))
  if (any(ours[2:4] < study[1] | ours[2:4] > study[5]))
    return(paste0("has very different values: ", middle))
  ""  # other patients are no other unit
}

on_levels <- function(column, theirs, cells, rows) {
  names <- c(column$reference, as.character(unlist(column$levels)))
  study <- decimals(unlist(theirs$shares))
  if (column$name == INTERVAL) return(on_times(names, study, cells, rows))
  share_of <- function(name) if (name %in% names) study[match(name, names)] else NULL
  if (!anyNA(cells) && length(unique(cells)) == 1) {
    share <- c(share_of(cells[1]), share_of("(other)"), 0)[1]
    return(if (is_odd_constant(rows, share)) first(CONSTANT) else "")
  }
  ours <- vapply(names, function(name) sum(cells == name, na.rm = TRUE) / rows$here, 0)
  named <- which(!names %in% c("(other)", "(missing)"))
  apart <- chance(rows, study, ours)
  for (i in named) for (j in named) {
    gap <- study[i] - study[j]
    turned <- ours[j] - ours[i]
    back <- replace(ours, c(i, j), ours[c(j, i)])
    as_before <- abs(back - study)[named] <= gap / 4 + apart[named]
    if (gap > 0.2 && gap + turned > apart[i] + apart[j] && all(as_before))
      return(first(sprintf(paste0("may have its levels %s and %s exchanged: here %.0f%% and %.0f%% of ",
        "the rows, in the study %.0f%% and %.0f%%"), quoted(names[i]), quoted(names[j]),
        100 * ours[i], 100 * ours[j], 100 * study[i], 100 * study[j])))
  }
  others <- quoted(if ("(other)" %in% names) "(other)" else column$reference)
  folded <- if (is.null(column$folded)) 0 else decimals(column$folded)
  unknown <- mean(!cells[!is.na(cells)] %in% c(names, "(other)", "(missing)"))
  if (unknown > folded + max(MOST_UNKNOWN, chance(rows, folded, unknown)))
    return(sprintf(paste("has levels here that the study does not have, in %.0f%% of the rows: they",
                         "count as %s"), 100 * unknown, others))
  on_missing(mean(is.na(cells)), share_of("(missing)"),
             if (has_missing_term(column)) "" else others, rows)
}

# Times in years where the study has days leave nobody at risk after its first interval; or the reverse.
on_times <- function(names, study, cells, rows) {
  at_risk <- vapply(names, function(name) sum(cells == name), 0)
  last <- length(names)
  is_short <- at_risk[1] == rows$here && is_odd_constant(rows, study[1])
  is_long <- at_risk[last] > max(LEAST_APART, 0.95 * at_risk[1]) && study[last] < study[1] / 2
  if (is_short || is_long) first(SAME_TIMES) else ""
}

SAME_TIMES <- paste("is the same for everybody here: do the times have the study's unit (days and",
                    "years)? If not, convert them")

MOST_ROUNDED <- 25  # rows by which a published share of a class may be off

on_labels <- function(study, counts, rows) {
  shares <- counts / max(1, sum(counts))
  if (length(shares) != length(study)) return("")
  away <- abs(shares - study)
  is_odd <- away > chance(rows, study, shares) + MOST_ROUNDED / rows$original
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
spread_finding <- function(study, spreads, n) {
  if (is.null(spreads) || n < 50) return(NULL)
  odd <- sum(denied_spreads(study, spreads))
  # each that is too wide: wide cells for a few numbers are enough to forge
  is_wide <- decimals(unlist(study$spreads)) / pmax(spreads, 1e-30) > MOST_SPREAD
  if (!any(is_wide) && 2 * odd <= length(spreads)) return(NULL)
  c(sprintf(paste0("the spreads of %d of %d coefficients are not what the study states; these count ",
                   "nothing in what a match proves"), odd, length(spreads)))
}

# Whether the table holds rows twice, or three times; rows of few kinds are alike by nature.
copies_finding <- function(rows) {
  if (rows$n < 50) return(NULL)
  upper <- marks(rows$X)
  held <- cbind(upper, marks(rows$X, 2:3), rows$targets, rows$weights, rows$offset)
  kept <- held[upper < 2^14 * ALL / rows$n, , drop = FALSE]
  share <- copied_share(table(do.call(paste, as.data.frame(kept))))
  if (share == 0) return(NULL)
  how_many <- "every row occurs at least twice"
  if (share < 1) how_many <- paste(percent(share), "of the rows occur again")
  paste0(how_many, ": does the table hold copies? Leave them out, because tests and standard errors ",
         "count them as patients")
}

# Share of rows that are copies, from how often each kind occurs: Python's `copied_share`.
copied_share <- function(counts) {
  if (length(counts) < 16) return(0)
  if (min(counts) >= 2 && sum(counts) <= 3 * length(counts)) return(1)
  share <- 1 - length(counts) / sum(counts)
  by_chance <- 2 / 3 * share * sum(counts == 2)
  if (share >= 0.1 && by_chance >= 8 && 8 * sum(counts > 2) <= by_chance) share else 0
}

# Numbers whose spread, as the study states it, the rows of a lab deny.
denied_spreads <- function(study, spreads) {
  ratio <- decimals(unlist(study$spreads)) / pmax(spreads, 1e-30)
  !(ratio >= 1 / MOST_SPREAD & ratio <= MOST_SPREAD)
}

# --- how likely a lab leaves the original's cells ------------------------------------------------
# As Python's codes/stability.py has it. For reading and for the check of a study, not for codes.

# Antiderivative of the tail P[Delta > t].
tail_area <- function(t) t * pnorm(-t) - dnorm(t)

# Probability that a second lab leaves its cell, over the coins; widths are in standard deviations.
chance_of_leaving <- function(width, bits) {
  half <- width / 2
  reach <- width / 2^(bits + 1)
  if (bits >= 4) {  # the difference of two areas would cancel: Simpson's rule over so little
    ends <- pnorm(reach - half) + pnorm(-half - reach)
    chance <- (ends + 4 * pnorm(-half)) / 3
  } else {
    chance <- (tail_area(half + reach) - tail_area(half - reach)) / reach
  }
  pmin(1, chance)
}

# Probability that some number leaves its cell.
chance_of_any <- function(chances)
  max(2^-50, -expm1(sum(log1p(-pmin(chances, MOST_CHANCE)))))

# The least whole number at which something holds; it holds beyond it too.
least_whole <- function(holds, most = 1e12) {
  low <- 0
  high <- 1
  while (!holds(high)) {
    low <- high
    high <- 2 * high
    if (low >= most) return(high)
  }
  while (high - low > 1) {
    middle <- (low + high) %/% 2
    if (holds(middle)) high <- middle else low <- middle
  }
  high
}

# The same for a positive number, to one part in 2^40.
least_number <- function(holds) {
  low <- 0
  high <- 1
  while (!holds(high)) high <- 2 * high
  for (step in 1:60) {
    if (high - low < high * 2^-40) break
    middle <- (low + high) / 2
    if (holds(middle)) high <- middle else low <- middle
  }
  high
}

# Sizes of new centres, in what K centres showed, and how many of 100,000 centres have each.
SIZES <- c(1, 2, 4, 8, 16, 32)
SHARES <- c(40601, 50379, 8301, 671, 45, 3)

# Standard deviations of rows and centres together, at a centre of some size.
with_sampling <- function(sampling, between, size = 1) sqrt(sampling^2 + (size * between)^2)

# Probability that some number of a new centre leaves its cell, whatever the size of the centre.
stability <- function(widths, sampling, between, n_centres, chance) {
  sizes <- if (n_centres < 2) 1 else SIZES
  shares <- if (n_centres < 2) 1 else SHARES / sum(SHARES)
  chances <- vapply(sizes, function(size)
    chance_of_any(chance(widths / with_sampling(sampling, between, size))), 0)
  sum(shares * chances)
}

between_of <- function(study) decimals(unlist(study$between))

# Standard deviations of what the rows of the original and of a lab make differ.
sampling_of <- function(study, n)
  decimals(unlist(study$spreads)) * sqrt(1 / study$n_original + 1 / n)

# Widths that rows, spreads and centres imply, without what upper bounds add.
implied_widths <- function(study) {
  sampling <- sampling_of(study, study$n_replication)
  between <- between_of(study)
  rho <- as.double(study$max_disagreement)
  each <- -expm1(log1p(-rho) / length(sampling))
  leaves <- function(width) chance_of_leaving(width, study$design$bits)
  factor <- least_number(function(width) leaves(width) <= each)
  widths_at <- function(size) factor * with_sampling(sampling, between, size)
  suffices <- function(size)
    stability(widths_at(size), sampling, between, study$n_centres, leaves) <= rho * (1 + 1e-9)
  widths_at(if (study$n_centres < 2) 1 else least_number(suffices))
}

# Estimated probability that a lab with so many rows gets a different model: a sample of the
# original's population, or a new centre.
disagreement_of <- function(study, n, is_new_centre = FALSE) {
  widths <- widths_of(study$design)
  sampling <- sampling_of(study, n) * sqrt(widths / implied_widths(study))
  agreed <- is_agreed(study$design)
  stability(widths[agreed], sampling[agreed], between_of(study)[agreed] * is_new_centre,
            if (is_new_centre) study$n_centres else 0,
            function(width) chance_of_leaving(width, study$design$bits))
}

# Rows at which a lab gets the model half of the time, from an original at its cells' centres.
rows_to_match <- function(study) {
  agreed <- is_agreed(study$design)
  widths <- widths_of(study$design)[agreed]
  between <- between_of(study)[agreed]
  least_whole(function(n) {
    sampling <- sampling_of(study, n)[agreed]
    stability(widths, sampling, between, study$n_centres,
              function(width) pmin(1, 2 * pnorm(-width / 2))) <= 0.5
  })
}

# Refuse a study whose parts do not fit together, as Python does when it reads one.
check_study <- function(path, study) {
  design <- study$design
  n <- length(design$widths)
  need <- function(holds, ...) if (!isTRUE(holds)) refuse(path, ": ", ..., ". Get the file anew.")
  is_whole <- function(x, low, high)
    is.numeric(x) && length(x) == 1 && x == floor(x) && x >= low && x <= high
  is_numbers <- function(texts, least) {
    texts <- unlist(texts)
    is.character(texts) && length(texts) == n && all(grepl(NUMBER, texts)) &&
      all(is.finite(decimals(texts)) & decimals(texts) >= least)
  }
  is_hash <- function(text) is.null(text) || grepl("^[0-9a-f]{64}$", text)

  need(is_whole(design$bits, 0, 8), "bits must be a whole number from 0 to 8")
  need(is.null(design$constant) || (has_local_constant(design) &&
                                      all(rep_len(sketch_of(design), n)[is_constant(design)] == 0)),
       "the sketch must be 0 for constants that each lab fits by itself")
  need(is_numbers(design$widths, 1e-300), "widths must be positive decimal texts")
  need(is_numbers(study$spreads, 1e-300), "spreads must be ", n, " numbers")
  need(is_numbers(study$between, 0), "between must be ", n, " numbers")
  need(is_whole(study$n_centres, 0, 2^40) && (study$n_centres == 0) == all(between_of(study) == 0),
       "n_centres must be 0 if and only if centres do not differ")
  need(is_hash(study$commitment) && is.null(study$commitment) == (design$bits == 0),
       "a commitment must be there if and only if there is a sketch")
  need(is_hash(study$slopes_commitment) &&
         is.null(study$commitment) == is.null(study$slopes_commitment),
       "slopes_commitment must be there if and only if commitment is")
  need(!isTRUE(study$sealed) || !is.null(study$commitment),
       "sealed must be false without a commitment")
  need(isTRUE(as.double(study$max_disagreement) > 0 && as.double(study$max_disagreement) < 1),
       "max_disagreement must be in (0, 1)")
  need(is_whole(study$n_original, 1, 2^40) && is_whole(study$n_replication, 1, 2^40),
       "rows must be whole numbers of at least 1")

  ratio <- range(widths_of(design) / implied_widths(study))
  need(ratio[1] > 0.9 && ratio[2] < MOST_UPPER, sprintf(paste(
    "widths must be those that rows, spreads and max_disagreement imply, got some that are %.2g to",
    "%.2g times as wide"), ratio[1], ratio[2]))
  study
}

# --- what a match proves -------------------------------------------------------------------------
# What cells cost beyond the likeliest one, in nats, cheapest first, and the true one's place. Width
# and number are in units of the prior's standard deviation.
cell_costs <- function(width, offset, number) {
  nearest <- round(offset)
  true_code <- round(number / width + offset)
  reach <- min(max(abs(true_code - nearest) + 2, ceiling(6 / width) + 1), 4096)
  codes <- nearest + (-reach:reach)

  ends <- abs((codes - offset) * width)
  upper <- pnorm(width / 2 - ends, log.p = TRUE)
  lower <- pnorm(-ends - width / 2, log.p = TRUE)
  costs <- -(upper + log1p(-exp(pmin(lower - upper, -1e-16))))

  by_cost <- order(costs)
  list(costs = costs[by_cost] - min(costs), place = match(true_code, codes[by_cost]))
}

# How many code vectors are at least as likely as the true one, from a histogram of costs.
count_cheaper <- function(ladders, budget) {
  step <- max(budget / 2048, 1e-6)
  n_bins <- floor(budget / step) + 1
  counts <- c(1, numeric(n_bins - 1))
  log_scale <- 0
  for (ladder in ladders) {
    costs <- ladder$costs[ladder$costs <= budget]
    rows <- tabulate(floor(costs / step) + 1, n_bins)
    sums <- numeric(n_bins)
    for (bin in which(rows > 0)) {
      there <- bin:n_bins
      sums[there] <- sums[there] + rows[bin] * counts[seq_along(there)]
    }
    log_scale <- log_scale + log(max(sums))
    counts <- sums / max(sums)
  }
  exp(min(log_scale + log(sum(counts)), 1000 * log(2)))
}

# The same one by one: a guesser who tries the likeliest first has tried so many.
run_guesses <- function(ladders, budget) {
  costs <- 0
  for (ladder in ladders) {
    steps <- ladder$costs[ladder$costs <= budget]
    costs <- unlist(lapply(steps, function(step) (costs + step)[costs + step <= budget]))
  }
  length(costs)
}

# Guesses that find a model from its study alone, as a power of two. The guesser knows cells and
# sketch, and how strong the model is as a whole, but not which columns matter.
guess_bits <- function(widths, offsets, numbers) {
  scale <- sqrt(mean(numbers^2))
  if (!length(numbers) || !(scale > 0)) return(0)
  narrow <- head(order(widths), MOST_COUNTED)
  ladders <- lapply(narrow, function(i)
    cell_costs(widths[i] / scale, offsets[i], numbers[i] / scale))

  budget <- 0
  for (ladder in ladders) budget <- budget + ladder$costs[ladder$place]
  guesses <- count_cheaper(ladders, budget)
  if (guesses <= MOST_RUN) log2(run_guesses(ladders, budget)) else min(log2(guesses), MOST_BITS)
}

# Guesses and rows behind a match; `spreads` are those of the lab's own rows, and numbers whose spread
# they deny count nothing. The base rate gives constants away.
evidence_of <- function(study, codes, spreads = NULL) {
  design <- study$design
  counts <- !is_constant(design)
  if (!is.null(spreads)) counts <- counts & !denied_spreads(study, spreads)
  offsets <- offsets_of(design, numeric(length(codes)))
  bits <- guess_bits(widths_of(design)[counts], offsets[counts], decoded(design, codes)[counts])
  # widths that were learned from centres tell how strong each slope is, not its sign
  if (study$n_centres > 1) bits <- min(bits, sum(counts))
  list(rows = rows_to_match(study), bits = bits, is_weak = bits < LEAST_BITS, placebo = FALSE)
}

# The same after a match: whether labels have a part in it.
proof_of <- function(study, codes, spreads, rows, same) {
  proof <- evidence_of(study, codes, spreads)
  if (isTRUE(same) && !proof$is_weak)
    proof$placebo <- proof$is_weak <- placebo_matches(study, codes, rows)
  proof
}

# --- a match that labels have no part in ---------------------------------------------------------
# Numbers of 64 bits are rows of four of 16 bits, the lowest first.
ODD <- c(0x7C15, 0x7F4A, 0x79B9, 0x9E37)
product64 <- function(words, constant) product(words, constant)[, 1:4, drop = FALSE]
shifted64 <- function(words, n) {
  words <- cbind(words, 0, 0, 0)[, n %/% 16 + 1:5, drop = FALSE]
  floor(words[, 1:4, drop = FALSE] / 2^(n %% 16)) +
    words[, 2:5, drop = FALSE] %% 2^(n %% 16) * 2^(16 - n %% 16)
}
sum64 <- function(a, b) {
  sum <- a + b
  for (i in 1:3) sum[, i + 1] <- sum[, i + 1] + sum[, i] %/% 65536
  sum %% 65536
}
mixed64 <- function(x) {
  x <- product64(xor16(x, shifted64(x, 30)), c(0xE5B9, 0x1CE4, 0x476D, 0xBF58))
  x <- product64(xor16(x, shifted64(x, 27)), c(0x11EB, 0x1331, 0x49BB, 0x94D0))
  xor16(x, shifted64(x, 31))
}
bits_of <- function(x) {
  bytes <- writeBin(as.double(x) + 0, raw(), endian = "little")
  halves <- readBin(bytes, "integer", 4 * length(x), size = 2, signed = FALSE, endian = "little")
  matrix(as.double(halves), ncol = 4, byrow = TRUE)
}

# A hash of all that a row holds; of equal rows each has its own.
row_hashes <- function(rows) {
  lower <- marks(rows$X, 2:3)
  upper <- marks(rows$X)
  x <- cbind(lower %% 65536, lower %/% 65536, upper %% 65536, upper %/% 65536)
  for (values in list(rows$targets, rows$weights, rows$offset))
    if (!is.null(values)) x <- mixed64(sum64(product64(x, ODD), bits_of(values)))

  by_hash <- order(x[, 4], x[, 3], x[, 2], x[, 1])
  sorted <- x[by_hash, , drop = FALSE]
  is_first <- c(TRUE, rowSums(sorted[-1, , drop = FALSE] != sorted[-rows$n, , drop = FALSE]) > 0)
  here <- seq_len(rows$n)
  number <- numeric(rows$n)
  number[by_hash] <- here - cummax(here * is_first)
  sum64(x, product64(cbind(number %% 65536, number %/% 65536, 0, 0), ODD))
}

# Well-mixed numbers below 2^32 of the hashes of rows: others for each salt.
salted <- function(hashes, salt) {
  mixed <- mixed64(matrix(c(salt + 1, 0, 0, 0), 1))
  found <- mixed64(xor16(hashes, rep(mixed, each = nrow(hashes))))
  found[, 4] * 65536 + found[, 3]
}

# Some of the rows of a table.
rows_at <- function(rows, part)
  list(X = rows$X[part, , drop = FALSE], targets = rows$targets[part], weights = rows$weights[part],
       offset = rows$offset[part], n = length(part))

# Whether rows with the outcomes of others give the model, too, as far as its slopes go. The
# permutation follows the content of rows, so that their order does not matter.
placebo_matches <- function(study, codes, rows) {
  design <- study$design
  hashes <- row_hashes(rows)
  if (rows$n > 16384) {
    rows <- rows_at(rows, which(salted(hashes, 20) < floor(16384 * ALL / rows$n)))
    hashes <- row_hashes(rows)
  }
  givers <- order(salted(hashes, 21))
  rows$targets[order(salted(hashes, 22))] <- rows$targets[givers]
  theta <- tryCatch(fit(rows, design$loss, decimals(design$ridge), near = NEAR_ENOUGH),
                    replearn_refusal = function(problem) NULL)
  if (is.null(theta)) return(FALSE)  # labels that no model fits do not match
  placebo <- codes_at(design, offsets_of(design, coordinates_of(design$coordinates, theta)))
  all((placebo == codes)[!is_constant(design)])
}

# --- do patients support a model? ----------------------------------------------------------------
# The score test of Python's glm/support.py. For reading, so R may add up as it likes.
MOST_TESTED <- 600
UNLIKELY <- 0.01  # patients contradict a model below this p-value
ABSENT <- 1e-9    # information and variance of a column that a lab does not have

# Probability of a larger chi-square, or, with a finite freedom `below`, of its F.
tail_of <- function(square, freedom, below = Inf) {
  square <- max(square, 0)
  if (is.infinite(below)) return(pchisq(square, freedom, lower.tail = FALSE))
  pf(square / freedom, freedom, below, lower.tail = FALSE)
}

inverse_of <- function(matrix) {  # scaled, since columns may be rare
  scale <- 1 / sqrt(diag(matrix))
  solve(matrix * outer(scale, scale), tol = 0) * outer(scale, scale)
}

# Triangles of the coordinates as real numbers: of scores, and of columns.
factors_of <- function(coordinates)
  list(scores = triangle(coordinates$scores) * 2^-TRIANGLE_BITS,
       columns = columns_of(coordinates) * 2^-TRIANGLE_BITS)

mass_of <- function(rows) if (is.null(rows$weights)) rep(1, rows$n) else rows$weights

# Some rows at a model: for each score the columns that its parameters multiply.
at_model <- function(rows, part, loss, theta, is_wide) {
  some <- list(X = rows$X[part, , drop = FALSE], offset = rows$offset[part])
  if (is_wide) {  # constants and the size of all slopes
    alone <- theta
    alone[, 1] <- 0
    slopes <- scores_of(list(X = some$X), alone)
    columns <- lapply(seq_len(nrow(theta)), function(k) cbind(1, slopes[, k]))
  } else {
    columns <- rep(list(some$X / ONE), nrow(theta))
  }
  list(columns = columns, means = means_of(loss, scores_of(some, theta)),
       targets = rows$targets[part], mass = mass_of(rows)[part])
}

# Gradient, information and noise of all rows at a model, with what a dispersion needs.
moments_of <- function(rows, loss, theta, is_wide) {
  q <- nrow(theta)
  width <- if (is_wide) 2 else ncol(theta)
  square <- matrix(0, q * width, q * width)
  sums <- list(gradient = numeric(q * width), information = square, noise = square,
               second = numeric(width), weight = 0, squares = 0, predicted = 0)
  for (start in seq(1, rows$n, by = 65536)) {
    part <- start:min(start + 65535, rows$n)
    sums <- with_moments(sums, at_model(rows, part, loss, theta, is_wide), loss, width)
  }
  sums
}

with_moments <- function(sums, at, loss, width) {
  q <- length(at$columns)
  places <- lapply(seq_len(q), function(k) (k - 1) * width + seq_len(width))
  for (k in seq_len(q)) {
    own <- places[[k]]
    pulls <- residual(loss, k, at$means[, k], at$targets) * at$mass
    sums$gradient[own] <- sums$gradient[own] + crossprod(at$columns[[k]], pulls)[, 1]
    sums$squares <- sums$squares + sum(pulls^2)
    for (l in seq_len(q)) {
      bend <- curvature(loss, k, l, at$means[, k], at$means[, l]) * at$mass
      other <- places[[l]]
      sums$information[own, other] <- sums$information[own, other] +
        crossprod(at$columns[[k]] * bend, at$columns[[l]])
      sums$noise[own, other] <- sums$noise[own, other] +
        crossprod(at$columns[[k]] * (bend * at$mass), at$columns[[l]])
      if (k == l) sums$predicted <- sums$predicted + sum(bend * at$mass)
    }
  }
  sums$second <- sums$second + colSums(at$mass * at$columns[[1]]^2)
  sums$weight <- sums$weight + sum(at$mass)
  sums
}

# How much more residuals vary than the model predicts; classes cannot.
dispersion_of <- function(sums, loss) {
  if (loss$kind %in% c("bernoulli", "multinomial") || sums$predicted <= 0) return(1)
  max(sums$squares / sums$predicted, 1e-12)
}

# What fourth cumulants of the rows add to the variance of the quadratic form.
fourth_of <- function(rows, loss, theta, is_wide, inverse) {
  total <- 0
  for (start in seq(1, rows$n, by = 65536)) {
    at <- at_model(rows, start:min(start + 65535, rows$n), loss, theta, is_wide)
    q <- nrow(theta)
    width <- ncol(at$columns[[1]])
    inner <- function(k, l) {
      own <- (k - 1) * width + seq_len(width)
      other <- (l - 1) * width + seq_len(width)
      rowSums((at$columns[[k]] %*% inverse[own, other]) * at$columns[[l]]) * at$mass^2
    }
    total <- total + if (q == 1) sum(inner(1, 1)^2 * cumulants_of(at, loss))
      else class_cumulants(outer_list(q, inner), at$means)
  }
  total
}

# Fourth cumulant of each row's residual, as the model predicts it.
cumulants_of <- function(at, loss) {
  mean <- at$means[, 1]
  if (loss$kind == "bernoulli") return(mean * (1 - mean) * (1 - 6 * mean * (1 - mean)))
  if (loss$kind != "gaussian") return(mean)
  squares <- (mean - at$targets)^2
  mean(squares^2) - 3 * mean(squares)^2
}

# A list of lists, of all pairs.
outer_list <- function(q, value)
  lapply(seq_len(q), function(k) lapply(seq_len(q), function(l) value(k, l)))

# E (r' B r)^2 - (tr B W)^2 - 2 tr B W B W over rows, r the residual of a random class.
class_cumulants <- function(inner, means) {
  q <- ncol(means)
  shares <- cbind(pmax(1 - rowSums(means), 0), means)
  fourth <- 0
  for (label in 0:q) {
    left <- means
    if (label) left[, label] <- left[, label] - 1
    length <- 0
    for (k in 1:q) for (l in 1:q) length <- length + left[, k] * inner[[k]][[l]] * left[, l]
    fourth <- fourth + shares[, label + 1] * length^2
  }

  spread <- outer_list(q, function(k, l) means[, k] * ((k == l) - means[, l]))
  product <- outer_list(q, function(k, l)
    Reduce(`+`, lapply(1:q, function(m) inner[[k]][[m]] * spread[[m]][[l]])))
  trace <- Reduce(`+`, lapply(1:q, function(k) product[[k]][[k]]))
  square <- 0
  for (k in 1:q) for (l in 1:q) square <- square + product[[k]][[l]] * product[[l]][[k]]
  sum(fourth - trace^2 - 2 * square)
}

# Covariance between centres, the ridge of each parameter, and the parameters themselves.
prior_of <- function(study, theta, is_wide) {
  q <- nrow(theta)
  p <- ncol(theta)
  ridge <- decimals(study$design$ridge)
  factors <- factors_of(study$design$coordinates)
  variances <- matrix(between_of(study)^2, q, p, byrow = TRUE)
  slopes <- if (p > 1) mean(variances[, -1]) else 0
  real <- theta * POWER(-THETA_BITS)

  if (is_wide) {  # two parameters a score: the constant, and the size of its slopes
    lengths <- colSums(factors$scores^2)
    turned <- real[, -1, drop = FALSE] %*% factors$columns[-1, -1]
    size <- pmax(rowSums(turned^2) * lengths, 1e-12)
    prior <- as.vector(rbind(variances[, 1] / lengths, slopes / size))
    ridges <- as.vector(rbind(0, ridge * rowSums(real[, -1, drop = FALSE]^2)))
    return(list(prior = diag(prior), ridges = ridges, parameters = as.vector(rbind(real[, 1], 1))))
  }
  each <- rep(c(mean(variances[, 1]), rep(slopes, p - 1)), q)
  back <- kronecker(t(solve(factors$scores, tol = 0)), t(solve(factors$columns, tol = 0)))
  list(prior = back %*% (each * t(back)), ridges = rep(c(0, rep(ridge, p - 1)), q),
       parameters = as.vector(t(real)))
}

# The quadratic form that remains when departures in some directions, columns of `free`, are allowed.
left_of <- function(gradient, inverse, free) {
  square <- sum(gradient * (inverse %*% gradient))
  if (!ncol(free)) return(square)
  along <- crossprod(free, inverse)
  fitted <- qr.coef(qr(along %*% free), along %*% gradient)
  fitted[is.na(fitted)] <- 0
  square - sum((along %*% gradient) * fitted)
}

# Its p-value, by the chi-square that has the mean and variance of the quadratic form.
p_of_square <- function(square, n_free, mean, variance, below) {
  left <- mean - n_free
  if (left < 0.5) return(1)  # nothing is left to test
  freedom <- 2 * left * mean / variance
  tail_of(square * freedom / left, freedom, below)
}

# The inverse of an information; columns that a lab does not have are left alone.
bread_of <- function(information)
  inverse_of(information + diag(1e-9 * diag(information) + ABSENT, nrow(information)))

# Mean squares of the columns here, beside those of the original, to which the ridge's pull was fitted:
# published are these, rounded, with the ridge relative to the mean information of a score.
presence_of <- function(sums, design) {
  factors <- lapply(factors_of(design$coordinates), function(part) rowSums(part^2))
  rounding <- factors$columns * 0.125
  there <- factors$columns - decimals(design$ridge) / mean(factors$scores)
  here <- sums$second / max(sums$weight, 1e-12)
  there <- pmin(pmax(here, there - rounding, 0), there + rounding)
  here / pmax(there, ABSENT)
}

# Rows at coefficients `away` from the model's, and their gradient continued from there to these.
place_at <- function(study, theta, rows, is_wide, known, away) {
  loss <- study$design$loss
  moved <- theta
  if (!is_wide) moved <- floor(theta + matrix(away, nrow(theta), byrow = TRUE) * 2^THETA_BITS + 0.5)
  sums <- moments_of(rows, loss, moved, is_wide)
  pulls <- sums$weight * known$ridges
  if (!is_wide) pulls <- pulls * rep(presence_of(sums, study$design), nrow(theta))
  information <- sums$information + diag(pulls, length(pulls))
  list(theta = moved, sums = sums, information = information,
       sampling = dispersion_of(sums, loss) * sums$noise,
       gradient = sums$gradient + pulls * (known$parameters + away) -
         as.vector(information %*% away))
}

# Covariance of the gradient, with the curvature of where the truth of this centre most likely lies.
compared <- function(study, theta, rows, is_wide) {
  known <- prior_of(study, theta, is_wide)
  size <- length(known$parameters)
  ratio <- rows$n / study$n_original
  firsts <- (seq_len(nrow(theta)) - 1) * size / nrow(theta) + 1
  away <- numeric(size)
  for (move in 1:12) {
    place <- place_at(study, theta, rows, is_wide, known, away)
    information <- place$information
    centres <- information %*% known$prior %*% information
    exact <- (1 + ratio) * place$sampling + centres
    overfitting <- if (is_wide) overfitting_of(rows, study, theta, place$sums)
    if (is_wide) exact <- exact + diag(overfitting$variance, size)
    total <- exact + diag(1e-9 * diag(exact) + ABSENT, size)
    inverse <- inverse_of(total)
    if (is_wide) break

    # the best linear prediction of what the model differs by from the truth here
    pulled <- inverse %*% place$gradient
    of_model <- known$prior %*% (information %*% pulled) +
      ratio * bread_of(information) %*% (place$sampling %*% pulled)
    likely <- known$parameters - as.vector(of_model)
    step <- pmin(pmax(likely, -16), 16) - known$parameters - away
    constants <- sum(diag(information)[firsts])
    change <- sqrt(max(sum(step * (information %*% step)), 0) / max(constants, ABSENT))
    if (change < 0.1) break
    away <- away + step * min(1, 1 / change)  # not further at once: steps at rare events lead too far
  }
  c(place, list(overfitting = overfitting, centres = centres, exact = exact, total = total,
                inverse = inverse, parameters = known$parameters))
}

# p-value of the size of all slopes, whatever the constants. Slopes are too large where they were fitted
# to noise: with e the original's error, the gradient along them has the form e' H e, of a known mean.
p_of_size <- function(found, rungs, ratio, below) {
  constants <- rungs[[2]]
  along <- rungs[[3]][, ncol(rungs[[3]])]
  pulled <- found$inverse %*% constants  # what constants explain is taken off
  inner <- found$inverse - pulled %*% solve(crossprod(constants, pulled), t(pulled), tol = 0)
  noise <- inner %*% found$sampling * ratio
  excess <- sum(along * (inner %*% found$gradient))
  excess <- excess - min(max(excess, 0), sum(diag(noise)))
  variance <- sum(along * (inner %*% along)) + 2 * sum(noise * t(noise))
  tail_of(excess^2 / max(variance, 1e-300), 1, below)
}

# Test a model, `theta` in whole units, with all rows of a lab: p-values of all coefficients, of the
# constants, of the slopes, of their size, of the slopes up to a factor, of each column; own estimates,
# one step away; spreads.
score_test <- function(study, theta, rows) {
  loss <- study$design$loss
  q <- nrow(theta)
  is_wide <- length(theta) > MOST_TESTED
  found <- compared(study, theta, rows, is_wide)
  information <- found$information
  inverse <- found$inverse
  overfitting <- found$overfitting
  size <- length(found$parameters)
  width <- size / q

  # 1 mean and variance of the quadratic form
  gradient <- found$gradient
  if (is_wide) gradient <- gradient - pmin(pmax(gradient, 0), overfitting$mean)
  inside <- inverse %*% found$exact  # a level without a row here has no variance, counts nothing
  mean <- max(sum(diag(inside)), 1e-9)
  # the original's rows have fourth cumulants, too: those of as many rows, times the ratio^4
  ratio <- rows$n / study$n_original
  fourth <- (1 + ratio^3) * fourth_of(rows, loss, found$theta, is_wide, inverse)
  variance <- 2 * sum(inside * t(inside)) + fourth
  variance <- max(variance, 0.5 * mean)
  share <- sum(inverse * t(found$centres)) / mean
  below <- if (study$n_centres < 2 || share < 1e-6) Inf else (4 + study$n_centres - 1) / share^2

  # 2 the rungs: all, whatever the constants, whatever the constants and one factor
  constants <- diag(1, size)[, (seq_len(q) - 1) * width + 1, drop = FALSE]
  factor <- found$parameters * (seq_len(size) %% width != 1)
  freed <- if (any(factor != 0)) cbind(constants, factor) else constants
  rungs <- lapply(list(constants[, 0], constants, freed), function(free) information %*% free)
  squares <- vapply(rungs, function(free) left_of(gradient, inverse, free), 0)
  p <- mapply(function(square, free) p_of_square(square, ncol(free), mean, variance, below),
              squares, rungs)
  p_constants <- tail_of(squares[1] - squares[2], q, below)
  if (is_wide && overfitting$leverage > 0.1) {  # it moves constants, too
    p[1] <- p[2]
    p_constants <- 1
  }
  p_size <- 1
  if (!is_wide && any(factor != 0)) p_size <- p_of_size(found, rungs, ratio, below)

  # 3 the lab's own estimates, one step away
  curved <- diag(information)
  bread <- bread_of(information)
  own <- bread %*% found$sampling %*% bread
  factors <- factors_of(study$design$coordinates)
  turn <- if (!is_wide) kronecker(t(factors$scores), t(factors$columns))
  list(p_value = p[1], p_constants = p_constants, p_slopes = p[2], p_size = p_size, p_factor = p[3],
       n_effective = min(curved[(seq_len(q) - 1) * width + 1]), below = below, is_wide = is_wide,
       step = matrix(-bread %*% gradient, q, byrow = TRUE),
       errors = matrix(ifelse(curved > ABSENT, sqrt(pmax(diag(own), 0)), Inf), q, byrow = TRUE),
       own_covariance = own, covariance = bread %*% found$total %*% bread,
       spreads = if (!is_wide) sqrt(pmax(rowSums((turn %*% own) * turn), 0) * rows$n))
}

# What slopes that were fitted to noise do to the gradient elsewhere: a quadratic form in the errors.
# Its mean is n / n_original for each effective slope, of which there are at most those that the
# diagonals of information and ridge give.
overfitting_of <- function(rows, study, theta, sums) {
  loss <- study$design$loss
  pull <- sums$weight * decimals(study$design$ridge)
  means <- means_of(loss, scores_of(rows, theta))
  effective <- vapply(seq_len(nrow(theta)), function(k) {
    bends <- curvature(loss, k, k, means[, k], means[, k]) * mass_of(rows)
    own <- colSums(bends * (rows$X[, -1, drop = FALSE] / ONE)^2)
    min(sum(own / pmax(own + pull, 1e-300)), study$n_original)
  }, 0)

  leverage <- pmin(effective / study$n_original, 0.9)
  inflation <- 1 / (1 - leverage)
  is_class <- loss$kind %in% c("bernoulli", "multinomial")
  dispersion <- if (!is_class) dispersion_of(sums, loss)
    else pmin(pmax(sums$squares / max(sums$predicted, 1e-12), 1), inflation)
  mean <- rows$n / study$n_original * dispersion * effective * inflation
  list(mean = as.vector(rbind(0, mean)), leverage = max(leverage),
       variance = as.vector(rbind(0, 2 * mean^2 / pmax(effective, 1))))
}

# p-value of the coefficients of one column (2: the first after the constant).
p_of_column <- function(test, column) {
  places <- (seq_len(nrow(test$step)) - 1) * ncol(test$step) + column
  step <- test$step[, column]
  fitted <- solve(test$covariance[places, places], step, tol = 0)
  tail_of(sum(step * fitted), length(places), test$below)
}

KNOWN <- 0.25  # standard error up to which a direction counts by itself
has_legs <- function(test) !test$is_wide && test$n_effective >= KNOWN^-2

# p-value of the constants, if there are events enough.
of_constants <- function(test) if (has_legs(test)) test$p_constants

# p-values of the size of all slopes, and of the column that differs most (Bonferroni).
of_directions <- function(test) {
  if (!has_legs(test)) return(NULL)
  known <- 1 + which(colSums(test$errors[, -1, drop = FALSE] > KNOWN) == 0)
  if (!length(known)) return(test$p_size)
  least <- min(vapply(known, function(column) p_of_column(test, column), 0))
  c(test$p_size, min(1, length(known) * least))
}

# Harmonic mean of p-values, of which that of all coefficients counts three times.
combined <- function(p_all, directions) {
  if (!length(directions)) return(p_all)
  min(1, 1.1 * (3 + length(directions)) / (3 / max(p_all, 1e-300) + sum(1 / pmax(directions, 1e-300))))
}

# What must be added to scores so that they predict the mean outcome: one for each score.
shift_of <- function(loss, scores, targets, mass) {
  q <- ncol(scores)
  shift <- numeric(q)
  for (step in 1:50) {
    means <- means_of(loss, scores + rep(shift, each = nrow(scores)))
    gradient <- vapply(seq_len(q), function(k) sum(residual(loss, k, means[, k], targets) * mass), 0)
    information <- matrix(0, q, q)
    for (k in seq_len(q)) for (l in seq_len(q))
      information[k, l] <- sum(curvature(loss, k, l, means[, k], means[, l]) * mass)
    information <- information + diag(1e-9 * (1 + sum(diag(information))), q)
    move <- pmin(pmax(-solve(information, gradient, tol = 0), -2), 2)
    shift <- shift + move
    if (max(abs(move)) < 1e-10 || anyNA(move)) break
  }
  shift
}

# --- what the original's model is worth to these patients ----------------------------------------
# A weighted mean over rows, and how far its 95 % confidence interval reaches.
measured <- function(values, mass) {
  value <- sum(values * mass) / sum(mass)
  c(value, 1.959963984540054 * sqrt(sum(((values - value) * mass)^2)) / sum(mass))
}
around <- function(value, reach) c(value = value, low = value - reach, high = value + reach)

row_losses <- function(loss, scores, targets) {
  switch(family_of(loss), gaussian = (scores[, 1] - targets)^2 / 2,
    # half the deviance, counted from means that equal the counts
    poisson = means_of(loss, scores)[, 1] - targets * scores[, 1] -
      (targets - targets * log(pmax(targets, 1e-300))), {
      every <- cbind(0, scores)
      top <- do.call(pmax, as.data.frame(every))
      top + log(rowSums(exp(every - top))) - every[cbind(seq_along(targets), targets + 1)]
    })
}

# Mean loss and, of two classes, AUC.
performance_of <- function(loss, scores, targets, mass)
  c(measured(row_losses(loss, scores, targets), mass)[1],
    if (loss$kind == "bernoulli") auc(scores[, 1], targets, mass)[1] else NA)

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

# What a model saves beyond less of it, in nats a row; both have constants of these rows.
gain_of <- function(loss, ours, base, targets, mass) {
  losses <- lapply(list(base, ours), function(scores) {
    shift <- shift_of(loss, scores, targets, mass)
    row_losses(loss, scores + rep(shift, each = nrow(scores)), targets)
  })
  mean <- measured(losses[[1]] - losses[[2]], mass)
  around(mean[1], mean[2])
}

# Two sums beside each other.
ratio_of <- function(observed, expected, mass) {
  total <- sum(observed * mass)
  ratio <- total / sum(expected * mass)
  reach <- min(1.96 * sqrt(sum(((observed - expected) * mass)^2)) / max(total, 1e-12), 300)
  c(value = ratio, low = ratio * exp(-reach), high = ratio * exp(reach))
}

# Events, or totals, beside what the model predicts; NULL for numbers and many classes.
observed_to_expected <- function(loss, scores, targets, mass) {
  if (ncol(scores) > 1 || loss$kind == "gaussian") return(NULL)
  ratio_of(targets, means_of(loss, scores)[, 1], mass)
}

# Logarithms of observed to expected, of each class if there are many; of numbers the mean.
base_risk_shifts <- function(loss, scores, targets, mass) {
  if (loss$kind == "gaussian") {
    mean <- measured(targets - scores[, 1], mass)
    return(list(around(mean[1], mean[2])))
  }
  means <- means_of(loss, scores)
  if (ncol(means) == 1) return(lapply(list(ratio_of(targets, means[, 1], mass)), log))
  means <- cbind(1 - rowSums(means), means)
  labels <- intersect(seq_len(ncol(means)) - 1, targets)
  lapply(labels, function(label) log(ratio_of(1 * (targets == label), means[, label + 1], mass)))
}

# Logistic regression of the target on the score: its slope, or NULL if there is none.
calibration_slope <- function(scores, targets, mass) {
  share <- mean(targets)
  if (all(scores == scores[1]) || !(share > 0 && share < 1)) return(NULL)
  X <- cbind(1, scores)
  beta <- c(0, 1)
  for (step in 1:50) {
    p <- 1 / (1 + exp(-pmin(pmax(drop(X %*% beta), -500), 500)))
    information <- crossprod(X, X * (mass * p * (1 - p)))
    if (!isTRUE(abs(det(information)) > 0)) return(NULL)
    move <- drop(solve(information, crossprod(X, mass * (targets - p)), tol = 0))
    beta <- beta + pmin(pmax(move, -2), 2)
    if (max(abs(move)) < 1e-10) break
  }
  # rows are independent, their weights are not counts
  pulls <- (X * (mass * (targets - p))) %*% solve(information, tol = 0)
  reach <- 1.96 * sqrt(sum(pulls[, 2]^2))
  if (is.finite(sum(beta) + reach)) around(beta[2], reach)
}

# Calibration in the large and slope, for two classes.
calibration_of <- function(loss, scores, targets, mass) {
  slope <- if (loss$kind == "bernoulli") calibration_slope(scores[, 1], targets, mass)
  if (is.null(slope)) return(NULL)
  shift <- shift_of(loss, scores, targets, mass)
  p <- means_of(loss, scores + shift)[, 1]
  reach <- 1.96 / sqrt(max(sum(p * (1 - p) * mass), 1e-12))
  list(in_the_large = around(shift, reach), slope = slope)
}

MEASURES <- c(gaussian = "half the squared error", poisson = "half the deviance",
              hazard = "half the deviance", bernoulli = "log-loss", multinomial = "log-loss")
RATIOS <- c(gaussian = "coefficient", poisson = "rate ratio", hazard = "hazard ratio",
            bernoulli = "odds ratio", multinomial = "odds ratio")

# Coefficients per unit, the model's and the lab's own, those that differ most first.
column_differences <- function(design, theta, test) {
  none <- data.frame(column = character(0), model = numeric(0), own = numeric(0), low = numeric(0),
                     high = numeric(0), p = numeric(0))
  if (!is.null(design$directions) || test$is_wide) return(none)
  names <- term_names(design$encoding)
  if (!length(names)) return(none)

  # from encoded columns to units
  is_gaussian <- design$loss$kind == "gaussian"
  width <- ncol(theta)
  turn <- per_unit(design, diag(1, width))
  if (is_gaussian) turn[, 1] <- turn[, 1] - decimals(design$loss$centre)
  printed <- function(value) {  # by term, then by score
    value <- value[, -1, drop = FALSE]
    as.vector(if (is_gaussian) value else exp(pmin(value, 700)))
  }
  reach <- t(vapply(seq_len(nrow(theta)), function(k) {
    part <- (k - 1) * width + seq_len(width)
    1.96 * sqrt(pmax(colSums(turn * (test$own_covariance[part, part] %*% turn)), 0))
  }, numeric(width)))
  reach[!is.finite(test$errors)] <- Inf

  own <- (theta + test$step) %*% turn
  theta <- theta %*% turn
  p <- vapply(seq_along(names) + 1, function(column) p_of_column(test, column), 0)
  q <- nrow(theta)
  table <- data.frame(column = rep(names, each = q), model = printed(theta), own = printed(own),
                      low = printed(own - reach), high = printed(own + reach), p = rep(p, each = q))
  if (q > 1) table$class <- rep(label_texts(design$classes)[-1], length(names))
  table <- table[order(table$p), ]
  row.names(table) <- NULL
  table
}

# Scores of the base rate: of survival one of events for each unit of time.
base_scores <- function(loss, rows) {
  mass <- mass_of(rows)
  if (loss$kind == "hazard")
    return(matrix(log(sum(rows$targets * mass) / sum(exp(rows$offset) * mass)) + rows$offset))
  matrix(start_of(loss, shares_of(rows, loss)), rows$n, n_scores(loss), byrow = TRUE)
}

# What a fit gives, or NULL where rows have no such fit.
unless_refused <- function(value) tryCatch(value, replearn_refusal = function(problem) NULL)

# The score test, with the lower rungs tested where their free numbers are fitted: far away from the
# model its curvature is a different one.
rungs_of <- function(study, theta, rows) {
  loss <- study$design$loss
  slopes <- slopes_times(theta * POWER(-THETA_BITS))
  tested_at <- function(factor) {
    there <- slopes_times(slopes * POWER(-THETA_BITS), decimals(factor))
    there[, 1] <- fit_constants(rows, loss, there)
    score_test(study, there, rows)
  }

  test <- score_test(study, theta, rows)
  own <- unless_refused(tested_at("1"))
  if (is.null(own)) own <- test
  p_factor <- own$p_factor
  if (nrow(theta) == 1 && any(slopes != 0)) {
    scaled <- unless_refused(tested_at(fit_factor(rows, loss, slopes)))
    if (!is.null(scaled)) p_factor <- combined(scaled$p_factor, of_directions(scaled)[-1])
  }
  directions <- of_directions(own)
  names <- c("p_value", "p_constants", "p_slopes", "p_factor", "spreads")
  replace(own, names, list(combined(test$p_value, c(of_constants(test), directions)),
                           test$p_constants, combined(own$p_slopes, directions), p_factor,
                           test$spreads))
}

# What a test says that knows of no difference between centres.
p_if_centres_did_not_differ <- function(study, theta, rows) {
  study$between <- rep("0", length(study$between))
  study$n_centres <- 0
  test <- score_test(study, theta, rows)
  if (has_local_constant(study$design)) return(combined(test$p_slopes, of_directions(test)))
  combined(test$p_value, c(of_constants(test), of_directions(test)))
}

MARGIN <- log(1.25)  # base risks differ where events are shown to be a quarter more, or fewer

# How far a model holds, after Vergouwe's closed test: all of it, its slopes, these up to a factor, or
# not its columns. What centres showed of their differences excuses a base risk; an assumption does not.
rung_of <- function(study, test, p_value, shifts, worse_than) {
  is_shown <- any(vapply(shifts, function(one) one[["low"]] > MARGIN || one[["high"]] < -MARGIN, NA))
  differs <- is_shown && !(study$n_centres > 1 && test$p_constants >= UNLIKELY)
  if (p_value >= UNLIKELY && !differs) return("model")
  if (test$p_slopes >= UNLIKELY) return("slopes")
  # a factor of 0 suits labels that no column tells anything about
  if (test$p_factor >= UNLIKELY && !nzchar(worse_than)) "factor" else "columns"
}

# Places of the terms that each column is part of, behind the constant; and the columns of each term.
owned_terms <- function(encoding) {
  names <- unlist(lapply(encoding$columns, function(column) {
    n <- if (is_number_column(column)) 1 + length(column$knots) + isTRUE(column$indicator)
      else length(column$levels)
    rep(column$name, n)
  }))
  terms <- c(as.list(names), lapply(encoding$products, function(product)
    unique(names[c(product$first, product$second) + 1])))
  columns <- vapply(encoding$columns, function(column) column$name, "")
  places <- rep(1 + seq_along(terms), lengths(terms))
  list(owned = split(places, factor(unlist(terms), columns)), terms = terms)
}

# Variance that terms add to scores and that no other term explains, times the information.
strength_of <- function(coordinates, theta) {
  turned <- t(triangle(coordinates$scores) * 2^-TRIANGLE_BITS) %*% (theta * POWER(-THETA_BITS))
  if (!is.null(coordinates$scales)) { # too many terms for a triangle
    scales <- as.double(unlist(coordinates$scales))
    return(list(is_known = FALSE, of = function(places)
      sum((turned[, places, drop = FALSE] * rep(scales[places], each = nrow(turned)))^2)))
  }
  precision <- crossprod(solve(factors_of(coordinates)$columns, tol = 0))
  list(is_known = TRUE, of = function(places) {
    part <- t(turned[, places, drop = FALSE])
    sum(part * solve(precision[places, places, drop = FALSE], part, tol = 0))
  })
}

NORMAL_99 <- 2.3263478740408408 # one of 100 lies beyond it, on one side
NEGLIGIBLE <- 0.05 # of what the whole model seemed worth, a loss that matters to nobody

# The strongest column, and all others: the model without each, and the loss that chance at the original
# explains. Of a single column nothing.
parts_of <- function(study, theta) {
  design <- study$design
  if (!is.null(design$directions)) return(list())
  found <- owned_terms(design$encoding)
  # intervals of time are the baseline, and belong to no part
  asked <- setdiff(names(found$owned), INTERVAL)
  if (length(asked) < 2) return(list())

  strength <- strength_of(design$coordinates, theta)
  name <- asked[which.max(vapply(asked, function(one) strength$of(found$owned[[one]]), 0))]
  is_other <- !vapply(found$terms, function(term) all(term == name), NA)
  effects <- setdiff(1 + seq_along(is_other), found$owned[[INTERVAL]])
  others <- setdiff(1 + which(is_other), found$owned[[INTERVAL]])

  # a loss is excused by chance at the original, or because it is small
  seeming_gain <- function(places) if (strength$is_known) strength$of(places) / 2 else 0
  negligible <- NEGLIGIBLE * seeming_gain(effects)
  variance <- mean(decimals(unlist(study$spreads))^2) / study$n_original
  part_of <- function(part, alternative, gone) {
    seeming <- seeming_gain(gone)
    chance <- nrow(theta) * length(gone) * variance
    reach <- NORMAL_99 * sqrt(2 * seeming * variance + chance * variance)
    excused <- max(chance + reach - seeming, negligible)
    list(name = part, alternative = alternative, without = `[<-`(theta, , gone, 0),
         excused = excused)
  }
  list(part_of(name, paste("without", name), found$owned[[name]]),
       part_of("the other columns", paste(name, "alone"), others))
}

# What a lab's patients say about the model that codes stand for; `own_theta` is the lab's own fit.
# Constants are this lab's own where the study leaves them to labs.
support_of <- function(study, codes, constants, rows, own_theta) {
  design <- study$design
  loss <- design$loss
  real <- decoded_theta(design, codes)
  theta <- on_grid(real, THETA_BITS)
  if (!is.null(constants)) theta[, 1] <- constants
  test <- rungs_of(study, theta, rows)

  y <- rows$targets
  mass <- mass_of(rows)
  ours <- scores_of(rows, theta)
  base <- measured(row_losses(loss, base_scores(loss, rows), y), mass)[1]
  performance <- data.frame(
    model = c("base rate here", "the original's model", "own fit, rows it saw"),
    rbind(c(base, NA),
          performance_of(loss, ours, y, mass),
          performance_of(loss, scores_of(rows, own_theta), y, mass)))
  names(performance)[-1] <- c(MEASURES[[loss$kind]], "AUC")
  if (all(is.na(performance$AUC))) performance$AUC <- NULL # two classes alone are ranked
  # of all coefficients that labs agree on
  p_value <- if (has_local_constant(design)) test$p_slopes else test$p_value
  shifts <- if (!has_local_constant(design)) base_risk_shifts(loss, ours, y, mass)
  gain <- gain_of(loss, ours, scores_of(rows, 0 * theta), y, mass)
  parts <- lapply(parts_of(study, theta), function(part)
    c(part, list(gain = gain_of(loss, ours, scores_of(rows, part$without), y, mass))))
  is_harmful <- vapply(parts, function(part) part$gain[["high"]] < -part$excused, NA)
  # what is shown to predict better here than the model
  worse_than <- if (gain[["high"]] < 0) "your base rate"
    else if (any(is_harmful)) parts[is_harmful][[1]]$alternative
    else ""
  list(p_value = p_value, rung = rung_of(study, test, p_value, shifts, worse_than),
       parts = parts, worse_than = worse_than,
       p_one_population = p_if_centres_did_not_differ(study, theta, rows), p_slopes = test$p_slopes, p_factor = test$p_factor, test = test,
       gain = gain, performance = performance,
       ratio = observed_to_expected(loss, ours, y, mass),
       calibration = calibration_of(loss, ours, y, mass),
       columns = column_differences(design, real, test), scale = RATIOS[[loss$kind]])
}

# Columns that contradict a model by themselves.
culprits_of <- function(support)
  head(unique(support$columns$column[support$columns$p < UNLIKELY]), 3)

# --- is it the original's model? -----------------------------------------------------------------
by_wall <- function(places) order(abs(abs(places) - 0.5))

# SHA-256 of the models of many codes, a list.
model_prints <- function(design, tried) {
  design <- canonical(design)
  texts <- lapply(tried, function(codes) charToRaw(paste0('{"codes":', canonical(as.list(codes)),
    ',"design":', design, ',"format":"replearn/model","version":1}')))
  do.call(sha256, texts)
}

# The original's codes, if one or two numbers next to a wall make the difference; or NULL.
neighbour <- function(study, codes, places) {
  near <- by_wall(places)
  near <- head(near[is_agreed(study$design)[near]], 24)
  tries <- c(as.list(near), if (length(near) > 1) combn(head(near, 8), 2, simplify = FALSE))
  moved <- lapply(tries, function(i) replace(codes, i, codes[i] + ifelse(places[i] > 0, 1, -1)))
  same <- which(model_prints(study$design, moved) == study$commitment)
  if (length(same)) moved[[same[1]]]
}

# The original's codes, if only its constants differ: the nearest ones that it commits to; or NULL.
with_other_constants <- function(design, codes, commits) {
  q <- n_scores(design$loss)
  reach <- c(200, 8, 3)[q]
  if (is.na(reach)) reach <- 1
  steps <- as.matrix(expand.grid(rep(list(-reach:reach), min(q, 6))))
  steps <- steps[order(rowSums(abs(steps))), , drop = FALSE]
  places <- which(is_constant(design))[seq_len(ncol(steps))]
  for (start in seq(1, nrow(steps), by = 64)) {  # many at once, the nearest first
    some <- start:min(start + 63, nrow(steps))
    tried <- lapply(some, function(i) replace(codes, places, codes[places] + steps[i, ]))
    same <- which(vapply(model_prints(design, tried), commits, NA))
    if (length(same)) return(tried[[same[1]]])
  }
  NULL
}

# Whether a commitment is that of a fingerprint; NA if there is none, or if it is sealed.
commits_to <- function(study, promised, fingerprint, nonce) {
  if (is.null(promised) || (isTRUE(study$sealed) && is.null(nonce))) return(NA)
  if (isTRUE(study$sealed))
    fingerprint <- sha256(charToRaw(paste0("replearn/seal/1\n", nonce, "\n", fingerprint)))
  promised == fingerprint
}

# Models and openings that were passed: paths, or models that were read.
read_opened <- function(study, opened) {
  if (inherits(opened, "replearn_model")) opened <- list(opened)
  model <- nonce <- NULL
  for (one in as.list(opened)) {
    if (!is.character(one)) {
      model <- one
    } else if (identical(read_json(one)$format, "replearn/opening")) {
      opening <- read_fingerprinted(one, "replearn/opening")
      if (!identical(opening$study, study$fingerprint))
        refuse(one, " opens a different study. Ask the original for this.")
      nonce <- opening$nonce
      # a wrong nonce would call every model a different one
      if (isFALSE(commits_to(study, study$commitment, opening$model, nonce)))
        refuse(one, " must hold the nonce and the model that the study commits to, got others. Ask ",
               "the original for its opening.")
    } else {
      model <- read_model(one)
    }
  }
  list(model = model, nonce = nonce)
}

# Whether a lab's codes are the original's, or are but for the constants, and the original's if known.
agreement_of <- function(study, codes, places, opened) {
  design <- study$design
  given <- read_opened(study, opened)
  is_sealed <- isTRUE(study$sealed)
  commits <- function(fingerprint) commits_to(study, study$commitment, fingerprint, given$nonce)
  slopes <- function(codes) replace(codes, is_constant(design), 0)
  prints <- model_prints(design, list(codes, slopes(codes)))

  if (!is.null(given$model)) {
    if (is_sealed && is.null(given$nonce))
      refuse("a sealed study needs its opening, which proves that the model is the original's, got ",
             "a model alone. Pass its opening, too: opened = c(\"a.model.json\", ",
             "\"a.opening.json\").")
    if (canonical(given$model$design) != canonical(design) ||
        isFALSE(commits(given$model$fingerprint)))
      refuse("the opened model must be the one that the study commits to, got a different one. Ask ",
             "the original for its model file.")
    theirs <- given$model$codes
    return(list(known = theirs, fingerprint = prints[1],
                same = given$model$fingerprint == prints[1],
                same_slopes = all(slopes(theirs) == slopes(codes))))
  }

  same <- commits(prints[1])
  same_slopes <- commits_to(study, study$slopes_commitment, prints[2], given$nonce)
  known <- if (isTRUE(same)) codes
    else if (isTRUE(same_slopes) && !has_local_constant(design))
      with_other_constants(design, codes, commits)
    else if (isFALSE(same) && !is_sealed) neighbour(study, codes, places)
  list(known = known, fingerprint = prints[1], same = same, same_slopes = same_slopes)
}

DENIED <- c("factor", "columns")  # rungs on which patients contradict more than the base risk

# Agreement and support in one word.
verdict_of <- function(agreement, support, look_first, is_small) {
  if (is.na(agreement$same)) return("untold")
  if (agreement$same) {
    is_better <- support$gain[["low"]] > 0
    if (nzchar(support$worse_than) || support$rung %in% DENIED) return("contradicted")
    if (length(look_first)) return("questioned")
    if (!is_better && !is_small) return("unsupported")
    if (support$rung == "slopes") return("same slopes")
    return(if (is_better) "confirmed" else "undecided")
  }
  is_denied <- is.null(support) || support$p_slopes < UNLIKELY || nzchar(support$worse_than)
  if (isTRUE(agreement$same_slopes) && !is_denied) "same slopes" else "different"
}

# --- replications --------------------------------------------------------------------------------
# Fit a study on a lab's own rows: a data.frame, or the path of a CSV file. `opened` are paths of the
# original's model, once it is open, and of the opening of a sealed study.
replicate <- function(study, data, opened = NULL, ...) {
  if (is.character(study)) study <- read_study(study)
  design <- study$design
  rows <- rows_of(design, data, ...)
  theta <- fit(rows, design$loss, decimals(design$ridge))
  offsets <- offsets_of(design, coordinates_of(design$coordinates, theta))
  codes <- codes_at(design, offsets)
  constants <- local_constants(design, codes, rows)

  agreement <- agreement_of(study, codes, offsets - codes, opened)
  fingerprint <- agreement$fingerprint
  known <- agreement$known
  theirs <- if (!is.null(known)) local_constants(design, known, rows)
  support <- if (!is.null(known)) support_of(study, known, theirs, rows, theta)
  agreed <- is_agreed(design)  # constants of a lab's own are in no cell
  names <- number_names(design)[agreed]
  positions <- (offsets - if (is.null(known)) codes else known)[agreed]
  apart <- if (!is.null(known)) which((codes != known)[agreed])
  questions <- rows$findings(study)
  structure(class = "replearn_replication", list(
    verdict = verdict_of(agreement, support, questions$first, rows$n < study$n_replication),
    same = agreement$same,
    same_slopes = agreement$same_slopes, fingerprint = fingerprint,
    # published offsets in other cells are nobody's fit: nothing may look like a usable model
    model = if (!isFALSE(agreement$same)) make_model(design, codes, constants,
                                                          fingerprint = fingerprint),
    original = if (isTRUE(agreement$same)) make_model(design, known, theirs,
                                                      fingerprint = fingerprint)
      else if (!is.null(known)) make_model(design, known, theirs),
    codes = codes, n_rows = rows$n, planned_rows = study$n_replication,
    people = people_of(study, rows),
    disagreement = disagreement_of(study, rows$n),
    at_new_centre = disagreement_of(study, rows$n, TRUE),
    evidence = proof_of(study, codes, support$test$spreads, rows, agreement$same),
    findings = c(questions$sentences, spread_finding(study, support$test$spreads, rows$n),
                 copies_finding(rows)),
    look_first = questions$first,
    support = support, performance = support$performance, differences = support$columns,
    own = own_estimates(design, rows, theta), ridge = design$ridge,
    has_local_constant = has_local_constant(design),
    apart = names[apart[order(-abs(positions[apart]))]],
    nearest = names[head(by_wall((offsets - codes)[agreed]), 5)],
    positions = setNames(positions, names)))
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
  is_known <- is.finite(values)
  largest <- max(0, abs(values[is_known]))
  exponent <- if (largest > 0) floor(log10(largest)) else 0
  digits <- if (exponent >= 0) max(3 - exponent, 0) else 2 - exponent
  words <- if (exponent < -5 || exponent > 14) sprintf("%.2e", values)
    else formatC(values + 0, format = "f", digits = digits, big.mark = ",")
  ifelse(is_known, words, "not known")
}

# Ratios with four significant digits, and two of how far they are from 1.
ratios_in_words <- function(values) vapply(values, function(x) {
  power <- function(number) if (number == 0) 0 else floor(log10(abs(number)))
  if (!is.finite(x)) return("not known")
  if (power(x) < -5 || power(x) > 14) return(sprintf("%.3e", x))
  away <- power(x - 1)
  decimals <- if (away >= -6 && away < -2) 1 - away else max(3 - power(x), 0)
  formatC(x, decimals, format = "f", big.mark = ",")
}, "", USE.NAMES = FALSE)

general <- function(number) sprintf("%.2g", number)
p_cell <- function(p) ifelse(p < 0.001, "<0.001", sprintf("%.3f", p))
p_in_words <- function(p) if (p < 0.001) "p < 0.001" else sprintf("p = %.3f", p)
two_digits <- function(number) counted(as.double(sprintf("%.1e", number)))
guesses_in_words <- function(bits) if (bits < 30) two_digits(2^bits) else sprintf("2^%.0f", bits)

# What a match proves, in a sentence.
proof_in_words <- function(proof) {
  guesses <- guesses_in_words(proof$bits)
  if (proof$placebo)
    return(paste0("A match is no evidence: your rows give this model with permuted labels, ",
                  "too. Whatever the outcomes are, a lab matches."))
  if (proof$is_weak) {
    tries <- if (guesses == "1") "at the first guess" else paste("in about", guesses, "guesses")
    return(paste0("A match is no evidence: the study gives the model away ", tries, "."))
  }
  paste0("Guessing this model from the study file takes about ", guesses, " tries; fitting it takes ",
         "about ", two_digits(proof$rows), " patients.")
}

# Findings for people: columns about which the same is to be said share a sentence.
in_sentences <- function(findings) {
  vapply(unique(findings), function(sentence) {
    names <- names(findings)[findings == sentence]
    if (length(names) > 1)
      return(paste0(length(names), " columns (", quoted(head(names, 4)), if (length(names) > 4) ", ...",
                    "): each ", sentence, "."))
    if (length(names) && nzchar(names)) return(paste0("Column ", quoted(names), " ", sentence, "."))
    paste0(toupper(substr(sentence, 1, 1)), substring(sentence, 2), ".")
  }, "", USE.NAMES = FALSE)
}

# Why patients contradict a model.
why_contradicted <- function(support) {
  if (nzchar(support$worse_than) && !support$rung %in% DENIED)
    return(paste("it is worse than", support$worse_than))
  culprits <- culprits_of(support)
  if (!length(culprits) && support$rung == "slopes") culprits <- "the base risk"
  paste(c(p_in_words(min(support$p_value, support$p_slopes)), if (length(culprits)) paste(culprits, collapse = ", ")),
        collapse = ": ")
}

# What differs and how.
base_risk_in_words <- function(support) {
  if (is.null(support$ratio)) return(c("constants", "differ here"))
  ratio <- support$ratio[["value"]]
  times <- if (ratio >= 1) ratio else 1 / max(ratio, 1e-12)
  c("base risk", paste("is", general(times), "times as", if (ratio >= 1) "high" else "low", "here"))
}

# Columns to look at first.
listed_columns <- function(columns) {
  more <- length(columns) - 3
  paste0(if (length(columns) == 1) "this column" else "these columns", " first: ",
         paste(head(columns, 3), collapse = ", "), if (more > 0) paste0(", and ", more, " more"))
}

# How many rows, or persons, a lab has.
size_in_words <- function(x)
  if (is.null(x$people)) paste(counted(x$n_rows), "rows") else paste(counted(x$people$here), "persons")

people_in_words <- function(people)
  value_item("persons here", counted(people$here), ", ", counted(people$events), " events",
             if (!is.null(people$planned))
               paste0("; planned for about ", counted(people$planned)))

# The verdict, as people say it.
verdict_in_words <- function(x) {
  same <- if (x$has_local_constant) "The same slopes, with your own constant" else "The same model"
  it <- if (x$has_local_constant) "them" else "it"
  beats <- if (x$has_local_constant) "they beat" else "it beats"
  switch(x$verdict,
    confirmed = paste0(same, ", and your patients support ", it, "."),
    unsupported = paste0(same, ", but your ", size_in_words(x), " do not show that ", beats,
                         " your base rate."),
    undecided = paste0(same, "; your ", size_in_words(x), " are too few to show whether ",
                       beats, " your base rate."),
    contradicted = paste0(same, ", but your patients contradict ", it, " (",
                          why_contradicted(x$support), ")."),
    "same slopes" = {
      differs <- base_risk_in_words(x$support)
      if (isTRUE(x$same)) paste0("The same model, but the ", differs[1], " ", differs[2], ".")
      else paste0("The same model but for the ", differs[1], ", which ", differs[2], ".")
    },
    questioned = paste0(same, ", but look at ", listed_columns(x$look_first), "."),
    untold = paste0("A model was made; the study does not tell whether it is the original's.",
                    if (length(x$look_first)) paste0(" Look at ", listed_columns(x$look_first), ".")),
    "A different model: these rows do not give the original's model. Do not use this.")
}

# How far the original's model holds here.
rung_in_words <- function(support) {
  if (support$rung == "model" && nzchar(support$worse_than))
    return(paste0("The original's model predicts worse here than ", support$worse_than, "."))
  culprits <- culprits_of(support)
  switch(support$rung,
    model = "Your patients do not contradict the original's model: chance may be the reason.",
    slopes = "Your patients have the original's slopes and a different base risk.",
    factor = "Your patients have the original's slopes up to one factor.",
    paste0("Your patients contradict these columns: ",
           if (length(culprits)) paste(culprits, collapse = ", ") else "several", "."))
}

# Whether the rung is the last one, which says which columns differ.
names_columns <- function(support) length(culprits_of(support)) > 0 && support$rung == "columns"

# What to do next, from the rung that was reached.
UPDATE_CONSTANT <- "Next: replearn update MODEL TABLE --constant fits the base risk here."
UPDATE_SLOPE <- "Next: replearn update MODEL TABLE --slope fits base risk and one factor."
EVALUATE <- "Next: replearn evaluate MODEL TABLE says how well the model predicts here."
ASK_ORIGINAL <- "Next: ask the original for its model, and pass it with --opened."
PUBLISH <- "Next: replearn publish makes a study of your own rows."
RECODE <- "Next: give these columns as the study has them, or say why they differ."
MISCALIBRATED <- 1.1  # observed to expected events beyond it, or below its inverse, are told

# The command that suits the rung: the smallest change that is enough.
next_command <- function(support) {
  if (nzchar(support$worse_than)) return(PUBLISH)
  switch(support$rung, model = EVALUATE, slopes = UPDATE_CONSTANT, factor = UPDATE_SLOPE, PUBLISH)
}

# What to do where agreement holds but the base risk here is a different one.
miscalibrated <- function(support) {
  ratio <- support$ratio
  if (is.null(ratio) ||
      (ratio[["low"]] <= MISCALIBRATED && ratio[["high"]] >= 1 / MISCALIBRATED)) return(NULL)
  paste0("Events are ", general(ratio[["value"]]), " times as many as the model says: replearn ",
         "update --constant.")
}

planned_in_words <- function(x) {
  planned <- counted(x$planned_rows)
  if (is.null(x$people)) planned
  else if (is.null(x$people$planned)) paste(planned, "rows at risk")
  else paste("about", counted(x$people$planned))
}

# What differs, by how much, and what to do.
next_steps <- function(x) {
  support <- x$support
  if (x$verdict == "untold")
    return(paste("Compare the fingerprint with those of other labs, or pass --opened with the",
                 "original's model; of a sealed study with its opening."))
  if (x$verdict == "same slopes" && !length(x$look_first)) return(UPDATE_CONSTANT)
  if (x$verdict %in% c("contradicted", "unsupported")) return(next_command(support))
  if (x$verdict %in% c("questioned", "same slopes"))
    return(RECODE)  # an update would fit the wrong columns
  if (x$verdict != "different") return(if (!is.null(support)) miscalibrated(support))
  c(if (x$n_rows < x$planned_rows && x$disagreement > 0.05)
      paste0(size_in_words(x), " are few: the study was planned for ", planned_in_words(x), "."),
    if (!is.null(support)) rung_in_words(support),
    if (length(x$apart) && !(!is.null(support) && names_columns(support)))
      paste0("Coefficients that differ: ", paste(head(x$apart, 3), collapse = ", "), "."),
    if (!length(x$apart) && is.null(support))
      paste0("Coefficients nearest to the edge of their cells: ",
             paste(head(x$nearest, 3), collapse = ", "), "."),
    if (is.null(support)) ASK_ORIGINAL else next_command(support))
}

# What there is to say is a list of sentences, of names with their values, and of tables.
value_item <- function(name, ...) list(list(name = name, text = paste0(...)))

measure_item <- function(name, measure, note) {
  words <- reals_in_words(measure)
  value_item(name, words[1], " (", words[2], " to ", words[3], "), ", note)
}

table_item <- function(title, frame, ratios = character(0)) {
  cells <- lapply(names(frame), function(name) {
    column <- frame[[name]]
    if (is.character(column)) return(column)
    words <- if (name == "p") p_cell else if (name %in% ratios) ratios_in_words else reals_in_words
    ifelse(is.na(column), "", words(column))
  })
  list(list(title = title, header = names(frame), is_number = !vapply(frame, is.character, NA),
            rows = matrix(as.character(unlist(cells)), nrow(frame), length(frame))))
}

performance_items <- function(support) {
  c(table_item("Performance on these rows", support$performance),
    if (!is.null(support$ratio)) measure_item("observed to expected", support$ratio, "1 is perfect"),
    if (!is.null(support$calibration))
      measure_item("calibration slope", support$calibration$slope, "1 is perfect"),
    # rows that only differences between centres excuse
    if (support$p_one_population < UNLIKELY && support$p_value >= UNLIKELY)
      value_item("differs as centres do", p_in_words(support$p_value), "; ",
                 p_in_words(support$p_one_population), " if centres did not differ"))
}

support_details <- function(support) {
  # intervals of time are the baseline, and shown where they contradict it
  is_baseline <- startsWith(support$columns$column, paste(INTERVAL, "= "))
  columns <- support$columns[!is_baseline | support$columns$p < UNLIKELY, , drop = FALSE]
  if (!is.null(columns$class)) columns$column <- paste(columns$column, columns$class, sep = ", ")
  columns$class <- NULL
  names(columns)[match(c("own", "low", "high"), names(columns))] <- c("step", "from", "to")
  c(value_item("patients fit the model", p_in_words(support$p_value)),
    value_item("if centres did not differ", p_in_words(support$p_one_population)),
    value_item("base risk alone", p_in_words(support$test$p_constants)),
    value_item("slopes alone", p_in_words(support$p_slopes)),
    value_item("slopes up to a factor", p_in_words(support$p_factor)),
    measure_item("gain over the base rate", support$gain, "constant fitted here"),
    unlist(lapply(support$parts, function(part)
      measure_item(paste("gain of", part$name), part$gain, "beside the rest")), recursive = FALSE),
    if (!is.null(support$calibration))
      measure_item("calibration in the large", support$calibration$in_the_large, "0 is perfect"),
    table_item(paste0("The model, and one step towards your patients (", support$scale, ")"),
               columns,
               if (endsWith(support$scale, "ratio")) c("model", "step", "from", "to")))
}

MOST_TOLD <- 6  # questions about columns that stand beside a verdict

# What Python's `replicate` says: a verdict, questions, items and details.
in_words <- function(x) {
  sentences <- in_sentences(x$findings)
  support <- x$support
  rate <- function(name, disagreement)
    value_item(paste0("agreement, ", name), percent(max(1 - disagreement, 1e-5)),
               ", estimated for ", size_in_words(x))
  items <- c(as.list(next_steps(x)),
    if (!isFALSE(x$same)) list(paste("Fingerprint", x$fingerprint)),
    if (isTRUE(x$same)) list(proof_in_words(x$evidence)),
    if (!is.null(support)) performance_items(support),
    if (is.null(x$people))
      value_item("rows here", counted(x$n_rows), ", planned for ", counted(x$planned_rows))
    else people_in_words(x$people))
  details <- c(as.list(tail(sentences, -MOST_TOLD)),
    if (!is.null(support)) support_details(support),
    rate("a sample of the original's patients", x$disagreement),
    rate("a new centre", x$at_new_centre),
    value_item("guesses that find the model", guesses_in_words(x$evidence$bits),
               ", from the study alone"))
  list(verdict = verdict_in_words(x), told = as.list(head(sentences, MOST_TOLD)), items = items,
       details = details)
}

# Lines of at most 78 columns; values that follow each other stand in one column.
print_items <- function(items) {
  is_value <- vapply(items, function(item) is.list(item) && !is.null(item$name), NA)
  groups <- cumsum(c(TRUE, diff(is_value) != 0)[seq_along(items)])
  for (group in split(items, groups)) {
    names <- unlist(lapply(group, function(item) if (is.list(item)) item$name))
    left <- min(26, max(0, nchar(names)))
    for (item in group) {
      if (is.character(item)) writeLines(strwrap(item, 78))
      else if (is.null(item$name)) print_table(item)
      else print_value(item, left)
    }
  }
}

print_value <- function(item, left) {
  names <- strwrap(item$name, left + 1)
  texts <- strwrap(item$text, 78 - left - 3)
  n <- max(length(names), length(texts))
  names <- c(names, rep("", n - length(names)))
  texts <- c(texts, rep("", n - length(texts)))
  writeLines(sub(" +$", "", sprintf("  %-*s  %s", left, names, texts)))
}

print_table <- function(table) {
  cells <- rbind(table$header, table$rows)
  columns <- lapply(seq_len(ncol(cells)), function(j)
    formatC(cells[, j], width = max(nchar(cells[, j])), flag = if (table$is_number[j]) "" else "-"))
  writeLines(strwrap(table$title, 78))
  writeLines(sub(" +$", "", paste0("  ", do.call(paste, c(columns, list(sep = "  "))))))
}

# The words for the command line name its options: in R they are arguments.
IN_R <- c(
  "pass --opened with the original's model" = "pass the original's model as opened =",
  "pass it with --opened." = "pass it as opened =.",
  "replearn update MODEL TABLE --constant" = "update(model, data)",
  "replearn update MODEL TABLE --slope" = "update(model, data, slope = TRUE)",
  "replearn update --constant" = "update(model, data)",
  "replearn evaluate MODEL TABLE" = "the command \"replearn evaluate MODEL TABLE\"",
  "replearn publish" = "the command \"replearn publish\"")

as_in_r <- function(items) lapply(items, function(item) {
  if (is.character(item))
    for (words in names(IN_R)) item <- sub(words, IN_R[[words]], item, fixed = TRUE)
  item
})

print_replication <- function(x, ...) {
  words <- in_words(x)
  writeLines(strwrap(words$verdict, 78))
  rest <- as.list(tail(in_sentences(x$findings), -MOST_TOLD))
  print_items(as_in_r(c(words$told, words$items, rest)))
  invisible(x)
}

print_study <- function(x, ...) {
  cat("A study of '", x$design$target, "', planned for ", counted(x$n_replication),
      if (x$design$loss$kind == "hazard") " rows at risk." else " rows.",
      "\n  columns      ", quoted(setdiff(names_of(x$design$encoding$columns), INTERVAL)),
      "\n  fingerprint  ", x$fingerprint, "\n", sep = "")
  invisible(x)
}

print_model <- function(x, ...) {
  cat("A model of '", x$design$target, "', fingerprint ", x$fingerprint, "\n", sep = "")
  updated <- x$recalibration
  if (!is.null(updated))
    cat("Updated from ", updated$parent, "\nSlopes are the parent's",
        if (updated$factor != "1") paste(" times", updated$factor), "; constants were fitted anew\n",
        sep = "")
  if (is.null(x$coefficients)) {
    cat("It has no constant yet, which its study leaves to each lab: update(model, data)\n")
    return(invisible(x))
  }
  cat("Coefficients: per unit of a number, of a level against its reference\n")
  found <- frame_model(x)
  print(found[!(names(found) %in% names(counts_as(x$design$encoding)))], digits = 5,
        row.names = FALSE)
  cat("Numbers beyond their range count as its ends: as.data.frame(model) has them.\n")
  invisible(x)
}

# Coefficients of a model as a table: a column for each class but the first, or one and its exponential;
# and what a number that is beyond its ends, or missing, counts as.
frame_model <- function(x, row.names = NULL, optional = FALSE, ...) {
  coefficients <- t(with_constant(x)$coefficients)
  found <- data.frame(term = rownames(coefficients), coefficients, check.names = FALSE,
                      row.names = row.names)
  if (ncol(coefficients) == 1) {
    names(found) <- c("term", "coefficient")
    if (x$design$loss$kind != "gaussian") found$ratio <- c(NA, exp(found$coefficient[-1]))
  }
  ends <- counts_as(x$design$encoding)
  cbind(found, ends[match(found$term, rownames(ends)), ], row.names = row.names)
}

counts_as <- function(encoding) {
  numbers <- Filter(is_number_column, encoding$columns)
  centre <- vapply(numbers, function(column) decimals(column$centre), 0)
  reach <- 4 * vapply(numbers, function(column) decimals(column$spread), 0)
  missing <- if (encoding$missing == "refuse") NA_real_ else centre
  data.frame(lowest = centre - reach, highest = centre + reach, if_missing = missing,
             row.names = names_of(numbers))
}

# Standard errors are of somebody's rows, and a model file has none.
vcov_model <- function(object, ...)
  refuse("a model has no standard errors: they are of rows. Ask your replication: confint(found).")
plot_model <- function(x, ...)
  refuse("a model has no intervals to plot: they are of rows. Plot your replication: plot(found).")

# Predictions of the shared model; after a mismatch there is none to use.
predict_replication <- function(object, newdata, ...) {
  if (is.null(object$model))
    refuse("a different model does not predict. Read the original's: replearn$model(\"FILE\").")
  predict_model(object$model, newdata, ...)
}

registerS3method("print", "replearn_replication", print_replication)
registerS3method("print", "replearn_study", print_study)
registerS3method("print", "replearn_model", print_model)
registerS3method("predict", "replearn_model", predict_model)
registerS3method("predict", "replearn_replication", predict_replication)
registerS3method("coef", "replearn_model", coef_model)
registerS3method("update", "replearn_model", update_model)
registerS3method("as.data.frame", "replearn_model", frame_model)
registerS3method("summary", "replearn_model", function(object, ...) object)
registerS3method("vcov", "replearn_model", vcov_model)
registerS3method("plot", "replearn_model", plot_model)
registerS3method("coef", "replearn_replication", coef_replication)
registerS3method("vcov", "replearn_replication", vcov_replication)
registerS3method("confint", "replearn_replication", confint_replication)
registerS3method("as.data.frame", "replearn_replication", frame_replication)
registerS3method("summary", "replearn_replication", summary_replication)
registerS3method("print", "replearn_summary", print_summary)
registerS3method("plot", "replearn_replication", plot_replication)

list(study = read_study, replicate = replicate, model = read_model, save = save_model,
     update = function(model, data, slope = FALSE, ...) update_model(model, data, slope, ...),
     internal = environment())
})
