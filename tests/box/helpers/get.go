// Prints what each address answers, by net/http: a client of the egress tests.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	for _, address := range os.Args[1:] {
		get(address)
	}
}

func get(address string) {
	answer, err := http.Get(address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	body, _ := io.ReadAll(answer.Body)
	fmt.Print(string(body))
}
