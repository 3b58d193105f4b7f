elm bridge goes over the wen .
ada lund is a retired pilot from wenford .
