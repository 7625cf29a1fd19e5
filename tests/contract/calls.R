# Answers calls of inst/replicate.R: files with a JSON list of [name, arguments] in, answers out.
given <- commandArgs(trailingOnly = TRUE)
source(given[1])
R <- replearn$internal
numbers <- function(x) as.double(unlist(x))
rows <- function(x) do.call(rbind, lapply(x, numbers))
some <- function(x) if (!is.null(x)) numbers(x)
out <- function(x) if (is.matrix(x)) apply(unname(x), 1, as.list, simplify = FALSE) else as.list(x)
codes <- function(design, z) out(floor(R$offsets_of(design, z) + 0.5))

from_coins <- function(v) {
  if (!is.null(v$path)) {  # of many coins, which Python has drawn: R takes seconds
    X <- matrix(readBin(v$path, "integer", v$n_rows * v$n_terms), v$n_rows, byrow = TRUE)
  } else {
    X <- drawn(v)
  }
  y <- R$uniforms("vectors", paste0(v$stream, "/targets"), v$n_rows) * 6 - 3 < X[, 1] / 4096
  list(terms = X, targets = as.double(y))
}
drawn <- function(v) {
  u <- matrix(R$uniforms("vectors", v$stream, 4 * v$n_rows * v$n_terms), 4)
  matrix(floor((((u[1, ] + u[2, ]) + u[3, ]) + u[4, ] - 2) * 7000 + 0.5), v$n_rows, byrow = TRUE)
}

# Sentences, names with their values, and tables in words.
items <- function(words) lapply(words, function(item) {
  if (is.character(item)) item
  else if (!is.null(item$name)) list(item$name, item$text)
  else list(title = item$title, header = as.list(item$header),
            rows = apply(item$rows, 1, as.list, simplify = FALSE))
})

calls <- list(
  canonical = function(v) list(R$canonical(v$content), R$fingerprint_of(v$content)),
  words = function(v) {
    w <- R$coin_words(v$seed, v$stream, 6, v$row)
    list(out(sprintf("%04x%04x%04x%04x", w[, 4], w[, 3], w[, 2], w[, 1])),
         out(R$uniforms(v$seed, v$stream, 6, v$row)))
  },
  exp = function(x) out(R$exact_exp(numbers(x))),
  sigmoid = function(x) out(R$sigmoid(numbers(x))),
  log = function(x) out(R$exact_log(numbers(x))),
  algebra = function(v) {
    lower <- R$cholesky(rows(v$matrix), v$floor)
    list(out(lower), out(R$solved(lower, numbers(v$right))))
  },
  marks = function(v) out(R$marks(cbind(4096, rows(v$terms)))),
  ties = function(v) codes(v, numbers(v$numbers)),
  fit = function(v) {
    data <- if (is.null(v$stream)) v else from_coins(v)
    X <- cbind(4096, if (is.matrix(data$terms)) data$terms else rows(data$terms))
    data <- list(X = X, targets = numbers(data$targets), n = nrow(X), weights = some(v$weights),
                 offset = some(v$offset))
    passes <- list()
    theta <- R$fit(data, v$loss, R$decimals(v$ridge), function(theta, share) {
      passes[[length(passes) + 1]] <<- list(theta = out(theta), share = share)
    })
    answer <- list(theta = out(theta), passes = passes, shares = out(R$shares_of(data, v$loss)))
    if (is.null(v$coordinates)) return(answer)
    z <- R$coordinates_of(v$coordinates, theta)
    decoded <- R$decoded(v, numbers(v$codes))
    c(answer, list(numbers = out(z), codes = codes(v, z), moved = codes(v, z + 0.03),
                   decoded = out(decoded), coefficients = out(R$theta_of(v$coordinates, decoded))))
  },
  encode = function(v) {
    is_number <- vapply(v$encoding$columns, R$is_number_column, NA)
    names <- R$names_of(v$encoding$columns)
    table <- do.call(R$read_table, c(list(v$path, names[is_number], names[!is_number]), v$options))
    found <- R$encode(v$encoding, table)
    list(columns = out(t(found$X)), counts = out(cbind(found$missing, found$odd)))
  },
  replicate = function(v) {
    if (!is.null(v$block)) R$BLOCK <- v$block
    data <- v$path
    if (!is.null(v$frame)) data <- read.csv(data, check.names = FALSE, fileEncoding = "UTF-8-BOM",
                                            encoding = "UTF-8", stringsAsFactors = v$frame)
    found <- do.call(replearn$replicate, c(list(v$study, data, opened = v$opened), v$options))
    model <- predicted <- response <- NULL
    if (!is.null(found$model)) {
      replearn$save(found$model, v$out)
    }
    if (!is.null(found$model) && isTRUE(v$predict)) {
      model <- replearn$model(v$out)
      predicted <- do.call(predict, c(list(model, data, type = "link"), v$options))
      response <- do.call(predict, c(list(model, data, horizon = v$horizon), v$options))
    }
    words <- R$in_words(found)
    known <- function(x) lapply(as.vector(t(unname(x))), function(number) if (!is.na(number)) number)
    own <- if (!is.null(found$own)) list(known(coef(found)), known(sqrt(diag(vcov(found)))))
    list(same = if (!is.na(found$same)) found$same, word = found$verdict,
         same_slopes = if (!is.na(found$same_slopes)) found$same_slopes,
         is_usable = !is.null(found$model), fingerprint = found$fingerprint,
         apart = as.list(found$apart), scores = out(predicted), response = out(response),
         own = own, coefficients = if (!is.null(model)) out(unname(coef(model))),
         p_values = unname(c(found$support$test[c("p_value", "p_constants", "p_slopes", "p_factor")],
                             found$support["p_one_population"])),
         verdict = words$verdict, told = words$told, items = items(words$items),
         details = items(words$details))
  },
  update = function(v) {
    given <- c(list(v$model, v$path, slope = v$slope), v$options)
    replearn$save(do.call(replearn$update, given), v$out)
    TRUE
  },
  methods = function(v) {
    # what R users call, beside a glm of the same rows without missing cells
    found <- replearn$replicate(v$study, v$path)
    frame <- read.csv(v$path)
    known <- glm(as.formula(v$formula), family = v$family, data = frame)
    pdf(v$picture)
    plot(found)
    dev.off()
    model <- found$original
    link <- predict(model, frame, type = "link")
    by_hand <- cbind(1, as.matrix(frame[v$columns |> unlist()])) %*% coef(model)
    ends <- confint(found, level = 0.9)
    list(own = out(unname(coef(found))), glm = out(unname(coef(known))),
         error = out(unname(sqrt(diag(vcov(found))))),
         glm_error = out(unname(sqrt(diag(vcov(known))))),
         link = out(link), by_hand = out(unname(drop(by_hand))),
         response = out(predict(model, frame)), class = out(predict(model, frame, type = "class")),
         widths = out(unname(ends[, 2] - ends[, 1])), names = out(rownames(ends)),
         frame = as.list(names(as.data.frame(found))),
         printed = as.list(capture.output(print(summary(found)))))
  },
  row_marks = function(v) {
    X <- cbind(4096, rows(v$terms))
    given <- list(X = X, targets = numbers(v$targets), n = nrow(X), weights = some(v$weights),
                  offset = some(v$offset))
    out(R$salted(R$row_hashes(given), v$salt))
  },
  placebo = function(v) {
    study <- replearn$study(v$study)
    found <- replearn$replicate(study, v$path)
    list(same = found$same, word = found$verdict,
         matches = R$placebo_matches(study, found$codes, R$rows_of(study$design, v$path)),
         words = R$proof_in_words(list(bits = 30, rows = 900, is_weak = TRUE, placebo = TRUE)))
  },
  table = function(v) {
    if (is.null(v$loss)) v$loss <- list(kind = "bernoulli")
    writeBin(charToRaw(enc2utf8(v$csv)), path <- tempfile(fileext = ".csv"))
    found <- R$rows_of(v, path)
    list(terms = out(found$X[, -1, drop = FALSE]), targets = out(found$targets),
         scaled = out(found$weights))
  },
  units = function(v) Map(list, unname(R$UNITS), names(R$UNITS))
)

# Paths of calls come in, line by line; answers stand beside them. R compiles what it runs often, so
# that one process for all tests is much faster than one for each.
paths <- file("stdin", "r")
while (length(path <- readLines(paths, 1))) {
  answers <- lapply(jsonlite::read_json(path), function(call) {
    tryCatch(calls[[call[[1]]]](call[[2]]),
             replearn_refusal = function(problem) list(refused = conditionMessage(problem)),
             error = function(problem) list(failed = conditionMessage(problem)))
  })
  writeLines(R$canonical(answers), paste0(path, ".answers"), useBytes = TRUE)
  cat("done\n")
}
